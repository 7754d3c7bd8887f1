#include "kha/core/deviation_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace kha {
namespace {

std::vector<double> noise(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(2.0, 0.1);
  std::vector<double> series(count);
  for (double& value : series) value = normal(random);
  return series;
}

// The definition as it is written, over the whole series: the places of its spikes.
std::vector<size_t> spikes_by_definition(const std::vector<double>& series, size_t window,
                                         double deviations, bool two_sided) {
  std::vector<size_t> spikes;
  for (size_t t = window; t < series.size(); ++t) {
    double mean = 0, variance = 0;
    for (size_t i = t - window; i < t; ++i) mean += series[i] / static_cast<double>(window);
    for (size_t i = t - window; i < t; ++i)
      variance += (series[i] - mean) * (series[i] - mean) / static_cast<double>(window);
    const double away = two_sided ? std::abs(series[t] - mean) : series[t] - mean;
    if (away > deviations * std::sqrt(variance)) spikes.push_back(t);
  }
  return spikes;
}

std::vector<size_t> spikes_of(const DeviationRule& rule, const std::vector<double>& series) {
  DeviationCounter counter(rule);
  std::vector<size_t> spikes;
  for (size_t t = 0; t < series.size(); ++t) {
    if (counter.add(series[t]).spike) spikes.push_back(t);
  }
  return spikes;
}

TEST(DeviationRule, FindsTheSpikesThatWerePutIn) {
  std::vector<double> series = noise(3000, 1);
  for (const size_t t : {1200u, 1900u, 2600u}) series[t] += 1.0;  // ten deviations
  series[2200] -= 1.0;
  EXPECT_EQ(spikes_of(olmo2_rule, series), (std::vector<size_t>{1200, 1900, 2200, 2600}));
  EXPECT_EQ(spikes_of(olmo_core_rule, series), (std::vector<size_t>{1200, 1900, 2600}));
}

TEST(DeviationRule, IsTheDefinitionWrittenOut) {
  std::vector<double> series = noise(2500, 2);
  std::mt19937 random(3);
  for (int i = 0; i < 25; ++i) {  // heights on both sides of both limits
    series[random() % series.size()] += 0.03 * static_cast<double>(random() % 61) - 0.3;
  }
  const auto by_core = spikes_by_definition(series, 128, 6, false);
  const auto by_olmo2 = spikes_by_definition(series, 1000, 7, true);
  EXPECT_GT(by_core.size(), 3u);
  EXPECT_GT(by_olmo2.size(), 3u);
  EXPECT_EQ(spikes_of(olmo_core_rule, series), by_core);
  EXPECT_EQ(spikes_of(olmo2_rule, series), by_olmo2);
}

TEST(DeviationRule, NothingIsJudgedBeforeTheWindowIsFull) {
  std::vector<double> series = noise(129, 4);
  series[127] = series[128] = 100;
  // Place 127 has 127 values before it, place 128 a full window, with that outlier in it.
  EXPECT_EQ(spikes_of(olmo_core_rule, series), (std::vector<size_t>{128}));
  const DeviationCounter counter = count_deviations(olmo_core_rule, series);
  EXPECT_EQ(counter.values(), 129);
  EXPECT_EQ(counter.judged(), 1);
}

TEST(DeviationRule, RatesAreSharesOfWhatTheyName) {
  std::vector<double> series = noise(1250, 5);
  series[1100] = series[1200] = 4;
  const DeviationCounter olmo2 = count_deviations(olmo2_rule, series);
  EXPECT_EQ(olmo2.judged(), 250);
  EXPECT_DOUBLE_EQ(olmo2.score(), 100.0 * 2 / 250);
  const DeviationCounter core = count_deviations(olmo_core_rule, series);
  EXPECT_DOUBLE_EQ(core.rate(), 100.0 * 2 / 1250);
  EXPECT_DOUBLE_EQ(core.recent_rate(100), 100.0 * 1 / 100);  // places 1150 to 1249
  EXPECT_DOUBLE_EQ(core.recent_rate(150), 100.0 * 2 / 150);  // 1100 is its first place
  EXPECT_DOUBLE_EQ(core.recent_rate(10000), core.rate());
}

TEST(DeviationRule, TheLimitItselfIsASpikeOfOlmo2Alone) {
  std::vector<double> series;
  for (int i = 0; i < 1000; ++i) series.push_back(i % 2 == 0 ? 1.0 : -1.0);  // mean 0, deviation 1
  series.push_back(7.0);
  EXPECT_EQ(count_deviations(olmo2_rule, series).spikes(), 1);
  series.back() = 6.0;
  EXPECT_EQ(count_deviations(olmo2_rule, series).spikes(), 0);
  series.erase(series.begin(), series.end() - 129);
  EXPECT_EQ(count_deviations(olmo_core_rule, series).spikes(), 0);
  series.back() = 6.0001;
  EXPECT_EQ(count_deviations(olmo_core_rule, series).spikes(), 1);
}

TEST(DeviationRule, AConstantSeriesHasNoSpike) {
  const std::vector<double> series(1500, 0.1);
  EXPECT_EQ(count_deviations(olmo2_rule, series).spikes(), 0);
  EXPECT_EQ(count_deviations(olmo_core_rule, series).spikes(), 0);
}

// A run whose level moves for good is not one long spike: what is taken in widens the window.
TEST(DeviationRule, ANewLevelIsASpikeForThreeOrFourValuesOnly) {
  std::vector<double> series = noise(128, 6);
  for (int i = 0; i < 200; ++i) series.push_back(5.0);
  const auto spikes = spikes_of(olmo_core_rule, series);
  ASSERT_FALSE(spikes.empty());
  EXPECT_EQ(spikes.front(), 128u);
  EXPECT_LE(spikes.back(), 131u);
}

TEST(DeviationRule, WhatIsNotFiniteIsASpikeAndLeavesTheWindowAlone) {
  std::vector<double> series = noise(200, 7);
  const auto before = count_deviations(olmo_core_rule, series);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    DeviationCounter counter = before;
    EXPECT_TRUE(counter.add(bad).spike);
    EXPECT_EQ(counter.spikes(), before.spikes() + 1);
    const Standing after = counter.judge(2.0), undisturbed = before.judge(2.0);
    EXPECT_EQ(after.mean, undisturbed.mean);
    EXPECT_EQ(after.deviation, undisturbed.deviation);
  }
  EXPECT_TRUE(DeviationCounter(olmo_core_rule).judge(std::nan("")).spike);
}

}  // namespace
}  // namespace kha
