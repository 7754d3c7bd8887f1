#include "kha/core/schedule.h"

#include <gtest/gtest.h>

namespace kha {
namespace {

TEST(Schedule, WarmUpRisesLinearlyToOne) {
  const ScheduleOptions s{.warmup_steps = 10};
  EXPECT_DOUBLE_EQ(schedule_factor(s, 1, 100), 0.1);
  EXPECT_DOUBLE_EQ(schedule_factor(s, 10, 100), 1.0);
}

TEST(Schedule, CosineEndsAtTheFloorAndIsHalfwayInTheMiddle) {
  const ScheduleOptions s{.kind = "cosine", .warmup_steps = 0, .floor = 0.1};
  EXPECT_NEAR(schedule_factor(s, 50, 100), 0.55, 1e-12);
  EXPECT_NEAR(schedule_factor(s, 100, 100), 0.1, 1e-12);
}

TEST(Schedule, ConstantStaysAndWsdFallsAtTheEndOnly) {
  EXPECT_EQ(schedule_factor({.kind = "constant", .warmup_steps = 5}, 100, 100), 1.0);
  const ScheduleOptions wsd{.kind = "wsd", .warmup_steps = 5, .floor = 0.0, .decay_share = 0.2};
  EXPECT_EQ(schedule_factor(wsd, 80, 100), 1.0);
  EXPECT_NEAR(schedule_factor(wsd, 90, 100), 0.5, 1e-12);
  EXPECT_NEAR(schedule_factor(wsd, 100, 100), 0.0, 1e-12);
}

TEST(Schedule, FivePercentIsTheDefaultWarmUp) {
  EXPECT_EQ(warmup_steps({}, 1000), 50);
  EXPECT_EQ(warmup_steps({}, 3), 0);
  EXPECT_GT(schedule_factor({}, 1, 3), 0.0);
}

TEST(Schedule, ARunLongerThanPlannedStaysAtTheFloor) {
  EXPECT_NEAR(schedule_factor({.warmup_steps = 1}, 200, 100), 0.1, 1e-12);
}

}  // namespace
}  // namespace kha
