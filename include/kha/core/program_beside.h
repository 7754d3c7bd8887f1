// The programs that stand beside this one in its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kha {

// FOLDER-OF-THIS-PROGRAM/name when it can be run; else the same in the folder that the environment
// variable KHA_PROGRAMS names. An installed wheel sets it for the engine, which lies inside the
// package there, apart from the companions.
std::optional<std::filesystem::path> program_beside(const std::string& name);

}  // namespace kha
