#include "cli/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kha::cli {

void print_left_out(const std::vector<std::string>& names) {
  std::vector<std::string> code, others;
  std::partition_copy(names.begin(), names.end(), std::back_inserter(code),
                      std::back_inserter(others),
                      [](const std::string& name) { return name.ends_with(".py"); });
  if (!code.empty()) fmt::print("  not taken along: {}\n", fmt::join(code, ", "));
  for (const auto& name : others) fmt::print("  not taken along: {}\n", name);
}

}  // namespace kha::cli
