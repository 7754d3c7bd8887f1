// Made-up events, so that every number can be seen.
#include "train/profile/breakdown.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/profile/step_profile.h"

namespace kha {
namespace {

using Kind = ProfileEvent::Kind;
constexpr std::int64_t ms = 1000000;

ProfileEvent part(const char* name, int begin, int end, int first_node = 0, int last_node = 0) {
  return {Kind::part, name, begin * ms, end * ms, 1, first_node, last_node};
}
ProfileEvent operation(const char* name, int begin, int end, std::uint64_t thread = 1) {
  return {Kind::operation, name, begin * ms, end * ms, thread};
}
ProfileEvent engine(int begin, int end) {
  return {Kind::engine_call, "autograd::engine::evaluate_function", begin * ms, end * ms, 1};
}
ProfileEvent node(const char* name, int begin, int end, int number) {
  return {Kind::backward_node, name, begin * ms, end * ms, 1, number};
}

// A step of 100 ms: forward 10-40 with a feed-forward in it, backward 50-80, optimiser 90-95.
std::vector<ProfileEvent> a_step() {
  return {part("step", 1, 101, 0, 9),
          part("loss", 11, 81, 0, 9),
          part("feed-forward", 21, 41, 2, 5),
          operation("mm", 22, 38),
          operation("copy", 23, 26),
          operation("cross_entropy", 42, 46),
          engine(51, 57),
          node("LossBackward", 51, 56, 7),
          operation("loss_backward", 52, 55),
          operation("sum", 57, 59),
          engine(60, 75),
          node("MmBackward", 60, 75, 3),
          operation("mm", 61, 71),
          part("optimiser", 91, 96)};
}

TEST(Breakdown, EveryInstantBelongsToOnePart) {
  const Breakdown b = break_down(a_step());
  EXPECT_NEAR(b.seconds, 0.100, 1e-9);
  double sum = 0;
  for (const auto& [name, time] : b.parts) sum += time.forward + time.backward;
  EXPECT_NEAR(sum, b.seconds, 1e-9);
  EXPECT_NEAR(b.parts.at("feed-forward").forward, 0.020, 1e-9);
  EXPECT_NEAR(b.parts.at("optimiser").forward, 0.005, 1e-9);
  EXPECT_NEAR(b.parts.at("step").forward, 0.025, 1e-9);
}

TEST(Breakdown, ABackwardNodeBelongsToThePartOfItsForward) {
  const Breakdown b = break_down(a_step());
  EXPECT_NEAR(b.parts.at("feed-forward").backward, 0.015, 1e-9);
  EXPECT_NEAR(b.parts.at("loss").backward, 0.005, 1e-9);
  // The sum at 57-59, and 56-57, 59-60, 75-81 of the engine itself.
  EXPECT_NEAR(b.parts.at(between_nodes).backward, 0.010, 1e-9);
  EXPECT_NEAR(b.parts.at("loss").forward, 0.020, 1e-9);
}

TEST(Breakdown, OperatorsCountTheirOwnTimeOnce) {
  const Breakdown b = break_down(a_step());
  EXPECT_EQ(b.operators.front().name, "mm");
  EXPECT_EQ(b.operators.front().calls, 2);
  EXPECT_NEAR(b.operators.front().own, 0.023, 1e-9);  // 16 - 3 of the copy, and 10
}

TEST(Breakdown, RecomputationInANodeIsBackward) {
  std::vector<ProfileEvent> events = a_step();
  events.insert(events.begin() + 12, part("feed-forward", 61, 70, 9, 11));
  const Breakdown b = break_down(events);
  EXPECT_NEAR(b.parts.at("feed-forward").forward, 0.020, 1e-9);
  EXPECT_NEAR(b.parts.at("feed-forward").backward, 0.015, 1e-9);
}

TEST(Breakdown, OtherThreadsCountAsOperatorsOnly) {
  std::vector<ProfileEvent> events = a_step();
  events.push_back(operation("elsewhere", 30, 90, 2));
  const Breakdown b = break_down(events);
  EXPECT_EQ(b.operators.front().name, "elsewhere");
  EXPECT_NEAR(b.seconds, 0.100, 1e-9);
  EXPECT_EQ(b.parts.count(""), 0u);
}

TEST(Breakdown, WhatWasOpenAtTheEndIsLeftOut) {
  std::vector<ProfileEvent> events = a_step();
  events.push_back(operation("open", 97, 0));
  const Breakdown b = break_down(events);
  EXPECT_NEAR(b.seconds, 0.100, 1e-9);
  for (const auto& op : b.operators) EXPECT_NE(op.name, "open");
}

TEST(ChromeTrace, HasTheFieldsOfTheFormat) {
  const StepSample sample{.step = 4, .time = 101 * ms, .seconds = 0.1, .faults = 7};
  const auto json = nlohmann::json::parse(chrome_trace(a_step(), {sample}));
  EXPECT_EQ(json.at("displayTimeUnit"), "ms");
  int complete = 0;
  for (const auto& event : json.at("traceEvents")) {
    EXPECT_TRUE(event.at("name").is_string() && event.at("pid").is_number());
    if (event.at("ph") != "X") continue;
    complete += 1;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GT(event.at("dur").get<double>(), 0);
    EXPECT_TRUE(event.at("tid").is_number() && event.at("cat").is_string());
  }
  EXPECT_EQ(complete, 14);
  const auto& counter = json.at("traceEvents").back();
  EXPECT_EQ(counter.at("ph"), "C");
  EXPECT_EQ(counter.at("args").at("minor faults"), 7);
  EXPECT_DOUBLE_EQ(counter.at("ts").get<double>(), 100000);
}

}  // namespace
}  // namespace kha
