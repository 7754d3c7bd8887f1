#include "kha/core/paired_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kha {
namespace {

TEST(StudentT, AgreesWithTheTables) {
  EXPECT_NEAR(student_t_95(1), 12.706, 5e-4);
  EXPECT_NEAR(student_t_95(2), 4.303, 5e-4);
  EXPECT_NEAR(student_t_95(3), 3.182, 5e-4);
  EXPECT_NEAR(student_t_95(10), 2.228, 5e-4);
  EXPECT_NEAR(student_t_95(29), 2.045, 5e-4);
  EXPECT_NEAR(student_t_95(1000000), 1.960, 5e-4);
}

TEST(SeedInterval, IsTheTextbookOne) {
  const Interval i = interval_over_seeds({-0.01, -0.03, -0.02});
  EXPECT_NEAR(i.mean, -0.02, 1e-15);
  EXPECT_NEAR(i.high - i.mean, 4.3027 * 0.01 / std::sqrt(3.0), 1e-5);
  EXPECT_FALSE(i.excludes_zero());
  EXPECT_TRUE(interval_over_seeds({-0.021, -0.019, -0.02}).excludes_zero());
}

TEST(DocumentInterval, WeighsDocumentsByTheirTargets) {
  const DocumentLosses arm{{0, {10.0, 10}}, {1, {180.0, 90}}},
      base{{0, {20.0, 10}}, {1, {180.0, 90}}};
  EXPECT_NEAR(interval_over_documents(arm, base).mean, -0.1, 1e-12);
}

TEST(DocumentInterval, OneDocumentProvesNothing) {
  const Interval i = interval_over_documents({{0, {1.0, 10}}}, {{0, {2.0, 10}}});
  EXPECT_NEAR(i.mean, -0.1, 1e-12);
  EXPECT_FALSE(i.excludes_zero());
}

// In 95 % of draws the interval covers the truth: here between 92 and 98 of 100, over 1,000 draws.
TEST(DocumentInterval, CoversTheTruthAsOftenAsItSays) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0.0, 0.05);
  std::uniform_int_distribution<int> length(20, 400);
  int covered = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    DocumentLosses arm, base;
    for (int d = 0; d < 60; ++d) {
      const int n = length(random);
      base[d] = {2.0 * n, n};
      arm[d] = {(2.0 - 0.01 + noise(random)) * n, n};
    }
    const Interval i = interval_over_documents(arm, base);
    covered += i.low <= -0.01 && -0.01 <= i.high;
  }
  EXPECT_GT(covered, 920);
  EXPECT_LT(covered, 980);
}

}  // namespace
}  // namespace kha
