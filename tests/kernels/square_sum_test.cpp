// The sum of squares of every instruction set against the same sum in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/every_set.h"

namespace kha::test {
namespace {

class SquareSum : public EverySet {};

// Nothing, less than a vector, several vectors, a stretch and what is left over; small and large.
TEST_P(SquareSum, IsTheSumInDouble) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  for (const std::int64_t count : {0, 1, 7, 8, 33, 64, 100, 4096, 4097, 8192, 70001}) {
    for (const float size : {1e-12f, 1.0f, 1e12f}) {
      std::vector<float> x(count + 1, NAN);  // what is behind the end is not read
      double want = 0.0;
      for (std::int64_t i = 0; i < count; ++i) {
        x[i] = size * normal(engine);
        want += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      }
      EXPECT_TRUE(std::abs(kernels().square_sum(x.data(), count) - want) <= 1e-6 * want)
          << count << " of size " << size;
    }
  }
}

TEST_P(SquareSum, WhatIsNotFiniteIsSeen) {
  for (const std::int64_t at : {0, 31, 5000, 6001}) {
    std::vector<float> x(6002, 1.0f);
    x[at] = NAN;
    EXPECT_TRUE(std::isnan(kernels().square_sum(x.data(), 6002))) << at;
    x[at] = INFINITY;
    EXPECT_TRUE(std::isinf(kernels().square_sum(x.data(), 6002))) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, SquareSum, testing::ValuesIn(all_kernels()),
                         [](const auto& set) { return set.param.name; });

}  // namespace
}  // namespace kha::test
