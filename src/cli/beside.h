// The programs that stand beside this one in its folder: kha-engine, and companions kha-NAME.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kha::cli {

// FOLDER-OF-THIS-PROGRAM/name when it can be run.
std::optional<std::filesystem::path> program_beside(const std::string& name);

// Becomes that program, with `arguments` behind its name. Returns only when that fails: throws.
[[noreturn]] void become(const std::filesystem::path& program,
                         const std::vector<std::string>& arguments);

// Runs it as a child that shares this terminal; returns its exit code, 128 + signal when killed.
int run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments);

}  // namespace kha::cli
