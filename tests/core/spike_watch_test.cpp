#include "kha/core/spike_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace kha {
namespace {

std::vector<StepRecord> run(int64_t steps) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal(0.0, 0.01);
  std::vector<StepRecord> series;
  for (int64_t step = 1; step <= steps; ++step) {
    series.push_back({step, 2 + normal(random), 0.5 + normal(random)});
  }
  return series;
}

TEST(SpikeWatch, EachDefinitionOverLossAndGradientNorm) {
  auto series = run(1500);
  series[1099].loss += 1;       // step 1100
  series[1199].loss += 1;       // step 1200
  *series[1299].grad_norm = 9;  // step 1300
  const SpikeFigures f = watch_spikes(series).figures(75);
  EXPECT_EQ(f.loss.olmo2_judged, 500);
  EXPECT_EQ(f.loss.olmo2_spikes, 2);
  EXPECT_DOUBLE_EQ(f.loss.olmo2_score, 0.4);
  EXPECT_EQ(f.loss.olmo_core_spikes, 2);
  EXPECT_EQ(f.grad_norm.olmo2_spikes, 1);
  EXPECT_EQ(f.grad_norm.olmo_core_spikes, 1);
  EXPECT_NEAR(f.grad_norm.olmo_core_rate, 100.0 / 1500, 1e-12);
  EXPECT_EQ(f.events_after_warmup, 2);
  EXPECT_EQ(f.steps_after_warmup, 1425);
  EXPECT_DOUBLE_EQ(f.per_thousand(), 2000.0 / 1425);
}

TEST(SpikeWatch, TheVerdictSaysWhichOfTheTwoItIs) {
  SpikeWatch watch = watch_spikes(run(200));
  const SpikeVerdict loss = watch.judge({201, 3.0, 0.5});
  EXPECT_TRUE(loss.spike() && loss.loss.spike && !loss.grad_norm.spike);
  EXPECT_NEAR(loss.loss.mean, 2.0, 0.01);
  const SpikeVerdict norm = watch.judge({201, 2.0, std::nan("")});
  EXPECT_TRUE(norm.spike() && !norm.loss.spike && norm.grad_norm.spike);
  EXPECT_FALSE(watch.judge({201, 2.0, 0.5}).spike());
  EXPECT_EQ(watch.figures(0).loss.values, 200) << "judging takes nothing in";
}

TEST(SpikeWatch, ANormThatWasNotLoggedIsNoSpike) {
  auto series = run(300);
  for (StepRecord& record : series) record.grad_norm.reset();
  const SpikeFigures f = watch_spikes(series).figures(0);
  EXPECT_EQ(f.grad_norm.values, 0);
  EXPECT_EQ(f.grad_norm.olmo_core_spikes, 0);
  EXPECT_THAT(to_text(f), testing::HasSubstr("gradient norm  not logged"));
}

// A run that is stopped and goes on is judged as one: the trainer feeds the steps of the file anew.
TEST(SpikeWatch, StepByStepAndWholeSeriesAreTheSame) {
  auto series = run(1600);
  for (const size_t i : {1150u, 1151u, 1400u}) series[i].loss += 0.5;
  SpikeWatch first = watch_spikes(std::span(series).first(1151));
  for (size_t i = 1151; i < series.size(); ++i) first.add(series[i]);
  EXPECT_EQ(to_json(first.figures(80)), to_json(watch_spikes(series).figures(80)));
}

TEST(SpikeWatch, CountsStepsRunningThatAreNotFinite) {
  SpikeWatch watch;
  const auto add = [&](double loss, std::optional<double> norm) {
    watch.add({.step = 1, .loss = loss, .grad_norm = norm});
    return watch.not_finite_running();
  };
  EXPECT_EQ(add(2, 1), 0);
  EXPECT_EQ(add(std::nan(""), 1), 1);
  EXPECT_EQ(add(2, std::nan("")), 2);
  EXPECT_EQ(add(INFINITY, {}), 3);
  EXPECT_EQ(add(2, {}), 0);
}

TEST(SpikeWatch, JsonNamesWhatIsNotDefined) {
  auto series = run(300);
  series[250].loss = std::nan("");
  const auto json = nlohmann::json::parse(to_json(watch_spikes(series).figures(15)));
  EXPECT_TRUE(json["loss"]["olmo2_score"].is_null()) << "300 values are no window of 1,000";
  EXPECT_EQ(json["events"][0]["first"], 251);
  EXPECT_TRUE(json["events"][0]["height"].is_null());
  EXPECT_EQ(json["warmup_steps"], 15);
}

TEST(SpikeWatch, TextNamesEventsAndTheBoundWithoutThem) {
  auto series = run(1015);
  const std::string none = to_text(watch_spikes(series).figures(15));
  EXPECT_THAT(none, testing::HasSubstr("0 in 1,000 steps (0 in 965 judged"));
  EXPECT_THAT(none, testing::HasSubstr("95 % bound 3.11 in 1,000"));
  series[811].loss += 1;
  const std::string one = to_text(watch_spikes(series).figures(15));
  EXPECT_THAT(one, testing::HasSubstr("step 812: "));
  EXPECT_THAT(one, testing::HasSubstr("back within 1 steps"));
}

}  // namespace
}  // namespace kha
