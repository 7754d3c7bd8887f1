// The programs that stand beside this one in its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kha {

// FOLDER-OF-THIS-PROGRAM/name when it can be run.
std::optional<std::filesystem::path> program_beside(const std::string& name);

}  // namespace kha
