// Running the programs that stand beside this one: kha-engine, and companions kha-NAME.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/program_beside.h"

namespace kha::cli {

// Becomes that program, with `arguments` behind its name. Returns only when that fails: throws.
[[noreturn]] void become(const std::filesystem::path& program,
                         const std::vector<std::string>& arguments);

// Runs it as a child that shares this terminal; returns its exit code, 128 + signal when killed.
int run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments);

}  // namespace kha::cli
