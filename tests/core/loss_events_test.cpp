#include "kha/core/loss_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace kha {
namespace {

// A quiet run: falls to 2 nats, with a scatter of 0.01.
std::vector<LossPoint> quiet(int64_t steps, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, 0.01);
  std::vector<LossPoint> series;
  for (int64_t step = 1; step <= steps; ++step) {
    series.push_back({step, 2 + 3 * std::exp(-static_cast<double>(step) / 30) + normal(random)});
  }
  return series;
}

double& loss_at(std::vector<LossPoint>& series, int64_t step) { return series[step - 1].loss; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The definition as it is written: the residual of each step that exceeds, by step.
std::map<int64_t, double> exceedances(const std::vector<LossPoint>& series) {
  std::map<int64_t, double> found;
  for (size_t t = 50; t < series.size(); ++t) {
    std::vector<double> window, away;
    for (size_t i = t > 200 ? t - 200 : 0; i < t; ++i) window.push_back(series[i].loss);
    const double middle = median(window);
    for (const double value : window) away.push_back(std::abs(value - middle));
    const double r = series[t].loss - middle;
    if (r > std::max(0.05, 8 * 1.4826 * median(away))) found[series[t].step] = r;
  }
  return found;
}

TEST(LossEvents, AQuietRunHasNone) {
  const LossEventFinder finder = find_loss_events(quiet(2000));
  EXPECT_TRUE(finder.events().empty());
  EXPECT_EQ(finder.judged_after(0), 1950);  // from the 51st on
  EXPECT_EQ(finder.judged_after(100), 1900);
}

TEST(LossEvents, FindsThoseThatWerePutInWithStepHeightAndRecovery) {
  auto series = quiet(2000);
  loss_at(series, 700) += 1.0;
  for (int64_t i = 0; i < 30; ++i) {  // a spike that takes its time
    loss_at(series, 1200 + i) += 0.8 * (1 - static_cast<double>(i) / 30) + 0.2;
  }
  const auto events = find_loss_events(series).events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].first, 700);
  EXPECT_EQ(events[0].last, 700);
  EXPECT_NEAR(events[0].height, 1.0, 0.05);
  EXPECT_NEAR(events[0].loss_before, 2.0, 0.02);
  EXPECT_LE(events[0].recovery.value(), 2);
  EXPECT_EQ(events[1].first, 1200);
  EXPECT_EQ(events[1].last, 1229);
  EXPECT_EQ(events[1].peak, 1200);
  EXPECT_GE(events[1].recovery.value(), 30);
  EXPECT_LE(events[1].recovery.value(), 32);
}

TEST(LossEvents, IsTheDefinitionWrittenOut) {
  auto series = quiet(1500, 2);
  std::mt19937 random(5);
  for (int i = 0; i < 80; ++i) {
    loss_at(series, 1 + static_cast<int64_t>(random() % 1500)) += 0.004 * (random() % 60);
  }
  const auto expected = exceedances(series);
  EXPECT_GT(expected.size(), 10u);
  // No merging: every exceedance is an event of its own.
  const auto events = find_loss_events(series, {.merge = 0}).events();
  ASSERT_EQ(events.size(), expected.size());
  for (const LossEvent& event : events) {
    ASSERT_EQ(expected.count(event.first), 1u) << event.first;
    EXPECT_DOUBLE_EQ(event.height, expected.at(event.first));
  }
}

TEST(LossEvents, ThoseWithinTenStepsAreOne) {
  for (const auto& [gap, expected] : std::map<int64_t, size_t>{{5, 1}, {10, 1}, {11, 2}, {40, 2}}) {
    auto series = quiet(1000);
    loss_at(series, 500) += 0.3;
    loss_at(series, 500 + gap) += 0.9;
    const auto events = find_loss_events(series).events();
    ASSERT_EQ(events.size(), expected) << gap;
    if (expected == 1) {
      EXPECT_EQ(events[0].last, 500 + gap);
      EXPECT_EQ(events[0].peak, 500 + gap);
      EXPECT_NEAR(events[0].height, 0.9, 0.05);
      EXPECT_GT(events[0].recovery.value(), gap) << "it rose again: the last return counts";
    }
  }
}

TEST(LossEvents, OneThatAnotherOvertakesComesBackWithIt) {
  auto series = quiet(1000);
  for (int64_t step = 500; step <= 520; ++step) loss_at(series, step) += 0.06;  // never quite back
  loss_at(series, 500) += 0.5;
  loss_at(series, 515) += 0.5;
  const auto events = find_loss_events(series, {.floor = 0.1}).events();
  ASSERT_EQ(events.size(), 2u);
  ASSERT_TRUE(events[0].recovery && events[1].recovery);
  EXPECT_EQ(events[0].first + *events[0].recovery, events[1].first + *events[1].recovery);
  EXPECT_GT(*events[0].recovery, 20);
}

TEST(LossEvents, SmallRisesAreNone) {
  auto series = quiet(1000);
  for (LossPoint& point : series) point.loss = 2.0;  // no scatter at all
  loss_at(series, 500) += 0.05;
  loss_at(series, 700) += 0.051;
  const auto events = find_loss_events(series).events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].first, 700);
}

TEST(LossEvents, OneThatDoesNotComeBackHasNoRecovery) {
  auto series = quiet(600);
  for (int64_t step = 500; step <= 600; ++step) loss_at(series, step) += 1.0;
  const auto events = find_loss_events(series).events();
  ASSERT_GE(events.size(), 1u);
  EXPECT_FALSE(events[0].recovery.has_value());
  EXPECT_EQ(mean_recovery(events), 0);
}

TEST(LossEvents, ALossThatIsNotFiniteIsOneAtAnyStep) {
  auto series = quiet(600);
  loss_at(series, 3) = std::nan("");
  loss_at(series, 400) = std::numeric_limits<double>::infinity();
  const LossEventFinder finder = find_loss_events(series);
  ASSERT_EQ(finder.events().size(), 2u);
  EXPECT_EQ(finder.events()[0].first, 3);
  EXPECT_TRUE(std::isinf(finder.events()[1].height));
  EXPECT_EQ(mean_height(finder.events()), 0);  // of finite ones alone
}

TEST(LossEvents, CountsBehindTheWarmUp) {
  auto series = quiet(2000);
  for (const int64_t step : {300, 900, 1500}) loss_at(series, step) += 1.0;
  const LossEventFinder finder = find_loss_events(series);
  EXPECT_EQ(finder.events_after(0), 3);
  EXPECT_EQ(finder.events_after(299), 3);
  EXPECT_EQ(finder.events_after(300), 2);
  EXPECT_EQ(finder.judged_after(300), 1700);
  EXPECT_NEAR(mean_height(finder.events()), 1.0, 0.1);
}

// What a run logs every tenth step is judged by its steps: neighbours are merged, further ones not.
TEST(LossEvents, StepsCountNotValues) {
  std::vector<LossPoint> sparse;
  auto series = quiet(6000);
  for (const int64_t step : {3000, 3010, 4000, 4020}) loss_at(series, step) += 1.0;
  for (const LossPoint& point : series) {
    if (point.step % 10 == 0) sparse.push_back(point);
  }
  const auto events = find_loss_events(sparse).events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].last, 3010);
  EXPECT_EQ(events[1].first, 4000);
  EXPECT_EQ(events[2].first, 4020);
}

}  // namespace
}  // namespace kha
