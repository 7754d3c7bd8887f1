// Rotary tables of scalings that depend on the length of the text, against the formulas written
// out in double.
#include "modules/rotary.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace kha::test {
namespace {

constexpr double theta = 1e4;
constexpr int64_t width = 10, original = 64;

using Frequency = std::function<double(int64_t)>;

void expect_table(const RotaryTable& table, const Frequency& frequency, double amplitude) {
  for (const int64_t p : {0L, 1L, 40L, table.positions() - 1}) {
    for (int64_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(p) * frequency(i);
      for (const int64_t channel : {i, i + width / 2}) {
        EXPECT_NEAR(table.cos()[p][channel].item<double>(), amplitude * std::cos(angle), 1e-12);
        EXPECT_NEAR(table.sin()[p][channel].item<double>(), amplitude * std::sin(angle), 1e-12);
      }
    }
  }
}

double plain(int64_t i) { return std::pow(theta, -2.0 * static_cast<double>(i) / width); }

RotaryTable table_of(const RotaryScaling& scaling, int64_t positions) {
  return {positions, width, theta, at::kDouble, at::kCPU, scaling};
}

TEST(Rotary, DynamicHasTheBaseOfTheTextsLength) {
  const RotaryTable table =
      table_of({.kind = "dynamic", .factor = 3, .original_max_position_embeddings = original}, 200);
  for (const int64_t length : {1L, 64L}) expect_table(table.of_length(length), plain, 1);
  for (const int64_t length : {65L, 130L, 200L}) {
    const double ratio = static_cast<double>(length) / original;
    const double base = theta * std::pow(3 * ratio - 2, width / (width - 2.0));
    expect_table(
        table.of_length(length),
        [&](int64_t i) { return std::pow(base, -2.0 * static_cast<double>(i) / width); }, 1);
  }
  EXPECT_TRUE(table.same_frequencies(3, 64));
  EXPECT_FALSE(table.same_frequencies(64, 65));
  EXPECT_FALSE(table.same_frequencies(65, 66));
}

TEST(Rotary, LongropeHasTwoSetsOfFrequencies) {
  const std::vector<double> brief{1, 1.1, 1.3, 1.5, 2}, long_ones{1, 2, 3, 5, 9};
  const RotaryScaling scaling{.kind = "longrope",
                              .factor = 4,
                              .original_max_position_embeddings = original,
                              .short_factor = brief,
                              .long_factor = long_ones};
  const double amplitude = std::sqrt(1 + std::log(4.0) / std::log(64.0));
  const RotaryTable table = table_of(scaling, 200);
  for (const int64_t length : {1L, 64L}) {
    expect_table(
        table.of_length(length), [&](int64_t i) { return plain(i) / brief[i]; }, amplitude);
  }
  for (const int64_t length : {65L, 200L}) {
    expect_table(
        table.of_length(length), [&](int64_t i) { return plain(i) / long_ones[i]; }, amplitude);
  }
  EXPECT_TRUE(table.same_frequencies(65, 200));
  EXPECT_FALSE(table.same_frequencies(64, 65));
  RotaryScaling given = scaling;
  given.attention_factor = 1.5;
  expect_table(
      table_of(given, 41), [&](int64_t i) { return plain(i) / brief[i]; }, 1.5);
}

TEST(Rotary, OtherScalingsKnowNoLength) {
  const RotaryTable table =
      table_of({.kind = "linear", .factor = 2, .original_max_position_embeddings = original}, 200);
  expect_table(
      table.of_length(200), [](int64_t i) { return plain(i) / 2; }, 1);
  EXPECT_TRUE(table.same_frequencies(3, 200));
}

}  // namespace
}  // namespace kha::test
