// A file of JSON objects, one a line, as runs write them.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace kha {

// Calls `take` with each object. A last line without its end is left out: the run is writing it, or
// was killed while it did. Fails for any other line that is no JSON object, naming it.
void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const nlohmann::json&)>& take);

}  // namespace kha
