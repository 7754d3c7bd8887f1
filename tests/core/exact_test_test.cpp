#include "kha/core/exact_test.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kha {
namespace {

double choose(int n, int k) {
  double product = 1;
  for (int i = 1; i <= k; ++i) product = product * (n - k + i) / i;
  return product;
}

// Equal steps: twice the smaller tail of the fair coin, written out.
double fair_coin(int first, int second) {
  const int n = first + second;
  double tail = 0;
  for (int k = 0; k <= std::min(first, second); ++k) tail += choose(n, k) / std::pow(2.0, n);
  return std::min(1.0, 2 * tail);
}

TEST(ExactTest, IsTheFairCoinForEqualSteps) {
  for (int first = 0; first <= 12; ++first) {
    for (int second = 0; second <= 12; ++second) {
      EXPECT_NEAR(exact_test(first, second, 500, 500), fair_coin(first, second), 1e-12)
          << first << " " << second;
    }
  }
}

TEST(ExactTest, KnownValues) {
  EXPECT_DOUBLE_EQ(exact_test(0, 0, 100, 100), 1.0);
  EXPECT_NEAR(exact_test(0, 5, 100, 100), 2.0 / 32, 1e-12);
  EXPECT_NEAR(exact_test(0, 6, 100, 100), 2.0 / 64, 1e-12);
  EXPECT_NEAR(exact_test(1, 9, 100, 100), 22.0 / 1024, 1e-12);
}

TEST(ExactTest, StepsWeigh) {
  // One event in each of arms of 100 and 300 steps: splits 0, 1, 2 have 9/16, 6/16, 1/16.
  EXPECT_NEAR(exact_test(1, 1, 100, 300), 7.0 / 16, 1e-12);
  EXPECT_NEAR(exact_test(2, 0, 100, 300), 1.0 / 16, 1e-12);
  EXPECT_NEAR(exact_test(0, 2, 100, 300), 1.0, 1e-12);
}

TEST(ExactTest, LargeCountsAreSymmetricAndFinite) {
  const double p = exact_test(1200, 1000, 100000, 100000);
  EXPECT_NEAR(p, 2.2e-5, 0.2e-5);  // 4.243 deviations
  EXPECT_NEAR(exact_test(1000, 1200, 100000, 100000), p, 1e-12);
}

TEST(ExactTest, TheBoundWithoutEventsIsTheRuleOfThree) {
  EXPECT_DOUBLE_EQ(bound_without_events(1000), 0.003);
  EXPECT_NEAR(std::pow(1 - bound_without_events(1000), 1000), 0.05, 1e-3);
}

}  // namespace
}  // namespace kha
