#include "kha/core/rotary_scaling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

namespace kha {
namespace {

using testing::Each;
using testing::IsEmpty;

TEST(RotaryScaling, DefaultChangesNothing) {
  EXPECT_THAT(frequency_multipliers({}, 1e4, 64), IsEmpty());
  EXPECT_EQ(rotary_amplitude({}), 1);
}

TEST(RotaryScaling, LinearDividesEveryFrequency) {
  const auto list = frequency_multipliers({.kind = "linear", .factor = 4}, 1e4, 10);
  EXPECT_EQ(list.size(), 5u);
  EXPECT_THAT(list, Each(0.25));
}

TEST(RotaryScaling, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const RotaryScaling scaling{.kind = "llama3",
                              .factor = 8,
                              .low_freq_factor = 1,
                              .high_freq_factor = 4,
                              .original_max_position_embeddings = 8192};
  const auto list = frequency_multipliers(scaling, 5e5, 128);
  int blended = 0;
  for (int i = 0; i < 64; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(5e5, 2.0 * i / 128);
    if (wave < 2048) {
      EXPECT_EQ(list[i], 1) << i;
    } else if (wave > 8192) {
      EXPECT_EQ(list[i], 0.125) << i;
    } else {
      const double kept = (8192 / wave - 1) / 3;
      EXPECT_NEAR(list[i], (1 - kept) / 8 + kept, 1e-15) << i;
      ++blended;
    }
  }
  EXPECT_GT(blended, 3);
}

TEST(RotaryScaling, YarnBlendsByRotationsOverTheOriginalLength) {
  RotaryScaling scaling{.kind = "yarn", .factor = 4, .original_max_position_embeddings = 4096};
  const auto list = frequency_multipliers(scaling, 1e4, 64);
  // Channels that turn 32 times and once over 4,096 positions.
  const auto channel = [](double turns) {
    return 64 * std::log(4096 / (turns * 2 * std::numbers::pi)) / (2 * std::log(1e4));
  };
  const double first = std::floor(channel(32)), last = std::ceil(channel(1));
  for (int i = 0; i < 32; ++i) {
    const double stretched = std::clamp((i - first) / (last - first), 0.0, 1.0);
    EXPECT_NEAR(list[i], stretched / 4 + 1 - stretched, 1e-15) << i;
  }
  EXPECT_EQ(list[0], 1);
  EXPECT_EQ(list[31], 0.25);
  EXPECT_NEAR(rotary_amplitude(scaling), 0.1 * std::log(4.0) + 1, 1e-15);
  scaling.attention_factor = 1.25;
  EXPECT_EQ(rotary_amplitude(scaling), 1.25);
}

// As DeepSeek's models have it: one amplitude over the other, and the logits with the square.
TEST(RotaryScaling, YarnsScalesAreTwo) {
  RotaryScaling s{.kind = "yarn", .factor = 40, .mscale = 0.7, .mscale_all_dim = 1.2};
  const double one = 0.1 * 0.7 * std::log(40.0) + 1, all = 0.1 * 1.2 * std::log(40.0) + 1;
  EXPECT_NEAR(rotary_amplitude(s), one / all, 1e-15);
  EXPECT_NEAR(rotary_logit_scale(s), all * all, 1e-15);
  s.mscale = 0;  // both, or it is the one of the paper
  EXPECT_NEAR(rotary_amplitude(s), 0.1 * std::log(40.0) + 1, 1e-15);
  EXPECT_NEAR(rotary_logit_scale(s), all * all, 1e-15);
  s.mscale_all_dim = 0;
  EXPECT_EQ(rotary_logit_scale(s), 1);
  s = {.kind = "yarn", .factor = 1, .mscale = 0.7, .mscale_all_dim = 1.2};
  EXPECT_EQ(rotary_amplitude(s), 1);
  EXPECT_EQ(rotary_logit_scale(s), 1);
}

TEST(RotaryScaling, DynamicAndLongropeChangeWithTheLength) {
  const RotaryScaling dynamic{
      .kind = "dynamic", .factor = 2, .original_max_position_embeddings = 100};
  EXPECT_THAT(frequency_multipliers(dynamic, 1e4, 8), IsEmpty());
  EXPECT_THAT(frequency_multipliers(dynamic, 1e4, 8, 100), IsEmpty());
  const double base = std::pow(2 * 1.5 - 1, 8.0 / 6);
  const auto list = frequency_multipliers(dynamic, 1e4, 8, 150);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(list[i], std::pow(base, -2.0 * i / 8), 1e-15) << i;
  const RotaryScaling longrope{.kind = "longrope",
                               .factor = 4,
                               .original_max_position_embeddings = 100,
                               .short_factor = {1, 2},
                               .long_factor = {4, 8}};
  EXPECT_THAT(frequency_multipliers(longrope, 1e4, 4, 100), testing::ElementsAre(1, 0.5));
  EXPECT_THAT(frequency_multipliers(longrope, 1e4, 4, 101), testing::ElementsAre(0.25, 0.125));
  EXPECT_NEAR(rotary_amplitude(longrope), std::sqrt(1 + std::log(4.0) / std::log(100.0)), 1e-15);
}

}  // namespace
}  // namespace kha
