// JSON objects from files: syntax errors and repeated keys are user errors that name the file.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kha {

// Whoever copies or prints a JSON value calls itself for each level, so that a file of brackets
// alone would use up the stack. Fails for text that is nested deeper than any file of a model is.
void refuse_deep_json(std::string_view text, const std::string& where);

// `kind` names the file in messages ("the shard index"). The top level must be an object.
nlohmann::json parse_strict_json(std::string_view text, const std::filesystem::path& path,
                                 const std::string& kind);

}  // namespace kha
