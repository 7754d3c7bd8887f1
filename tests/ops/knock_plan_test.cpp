#include "kha/ops/knock_plan.h"

#include <gtest/gtest.h>

namespace kha {
namespace {

TEST(KnockPlan, WeightSpaceAboveTheModelWidth) {
  EXPECT_EQ(choose_knock_plan(1024, 1024), KnockPlan::activation_space);
  EXPECT_EQ(choose_knock_plan(1025, 1024), KnockPlan::weight_space);
  EXPECT_EQ(choose_knock_plan(0, 1024), KnockPlan::activation_space);
}

TEST(KnockPlan, NamesRoundTrip) {
  EXPECT_EQ(to_string(KnockPlan::weight_space), "weight_space");
  for (KnockPlan plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
    EXPECT_EQ(parse_knock_plan(to_string(plan)), plan);
  }
  EXPECT_EQ(parse_knock_plan("weights"), std::nullopt);
  EXPECT_EQ(parse_knock_plan(""), std::nullopt);
}

}  // namespace
}  // namespace kha
