#include "cli/report.h"

#include <fmt/format.h>

#include "cli/beside.h"

namespace kha::cli {

void make_report(const std::filesystem::path& run) {
  const auto program = program_beside("kha-report");
  if (!program) {
    fmt::print("no report: kha-report is not installed beside kha-engine\n");
    return;
  }
  std::fflush(stdout);
  run_child(*program, {run.string()});
}

}  // namespace kha::cli
