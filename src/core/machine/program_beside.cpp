#include "kha/core/program_beside.h"

#include <unistd.h>

#include <cstdlib>
#include <system_error>

namespace kha {
namespace {

using Path = std::filesystem::path;

std::optional<Path> program_in(const Path& folder, const std::string& name) {
  const Path program = folder / name;
  return access(program.c_str(), X_OK) == 0 ? std::optional(program) : std::nullopt;
}

}  // namespace

std::optional<Path> program_beside(const std::string& name) {
  std::error_code error;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    if (const auto program = program_in(self.parent_path(), name)) return program;
  }
  const char* named = std::getenv("KHA_PROGRAMS");
  return named != nullptr && *named != '\0' ? program_in(named, name) : std::nullopt;
}

}  // namespace kha
