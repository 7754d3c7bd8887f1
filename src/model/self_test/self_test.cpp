#include "model/self_test/self_test.h"

#include <exception>
#include <limits>

namespace kha {
namespace {

CheckResult run_check(const Check& check) {
  try {
    const Measured measured = check.measure();
    return {check.name, measured, measured.figure <= measured.limit, ""};
  } catch (const std::exception& error) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    return {check.name, {none, none}, false, error.what()};
  }
}

}  // namespace

std::vector<CheckResult> run_checks(const std::vector<Check>& checks) {
  std::vector<CheckResult> results;
  for (const auto& check : checks) results.push_back(run_check(check));
  return results;
}

}  // namespace kha
