// A program run as a child, with what it wrote.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kha {

struct CapturedRun {
  int exit_code;       // 128 + signal when a signal ended it
  std::string output;  // standard output
  std::string errors;  // standard error
};

// Runs `program` with `arguments` behind its name and waits. Errors: it cannot be started.
CapturedRun run_captured(const std::filesystem::path& program,
                         const std::vector<std::string>& arguments);

}  // namespace kha
