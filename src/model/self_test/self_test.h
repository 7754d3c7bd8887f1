// What an installation must compute right before its figures can be trusted.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kha {

// `figure` is the largest difference from what is right; the check holds where it is at most
// `limit`.
struct Measured {
  double figure;
  double limit;
};

struct Check {
  std::string name;
  std::function<Measured()> measure;
};

struct CheckResult {
  std::string name;
  Measured measured;
  bool ok;
  std::string error;  // what the check threw; the figures mean nothing then
};

// Each map forward and backward against the double reference, at most twice the error that
// torch's own operators make, plus rounding.
std::vector<Check> operator_checks();
// Causal attention behind a cache, identity start, folding, a safetensors file written and read.
std::vector<Check> model_checks();

// Runs every check, also after one that failed or threw.
std::vector<CheckResult> run_checks(const std::vector<Check>& checks);

}  // namespace kha
