#include "kha/core/exact_test.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kha {
namespace {

// log of the probability of k of n.
double log_binomial(int64_t k, int64_t n, double p) {
  const auto real_k = static_cast<double>(k), real_n = static_cast<double>(n);
  return std::lgamma(real_n + 1) - std::lgamma(real_k + 1) - std::lgamma(real_n - real_k + 1) +
         real_k * std::log(p) + (real_n - real_k) * std::log1p(-p);
}

}  // namespace

double exact_test(int64_t first, int64_t second, int64_t first_steps, int64_t second_steps) {
  assert(first >= 0 && second >= 0 && first_steps > 0 && second_steps > 0);
  // Splits that are equally likely differ by rounding alone.
  constexpr double slack = 1e-7;
  const int64_t all = first + second;
  const double share =
      static_cast<double>(first_steps) / (static_cast<double>(first_steps) + second_steps);
  const double seen = log_binomial(first, all, share);
  double sum = 0;
  for (int64_t k = 0; k <= all; ++k) {
    const double split = log_binomial(k, all, share);
    if (split <= seen + slack) sum += std::exp(split);
  }
  return std::min(sum, 1.0);
}

double bound_without_events(int64_t steps) {
  assert(steps > 0);
  return 3.0 / static_cast<double>(steps);
}

}  // namespace kha
