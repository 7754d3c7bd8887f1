// The figures that the engine's `doctor` measures, as lines of a report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kha::cli {

// Lines for the ceiling, the memory's speed and the allocator; each ends with a line break.
std::string measured_in_words(const nlohmann::ordered_json& engine);

}  // namespace kha::cli
