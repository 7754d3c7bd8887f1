#include "kha/core/program_beside.h"

#include <unistd.h>

#include <system_error>

namespace kha {

std::optional<std::filesystem::path> program_beside(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto program = self.parent_path() / name;
  return access(program.c_str(), X_OK) == 0 ? std::optional(program) : std::nullopt;
}

}  // namespace kha
