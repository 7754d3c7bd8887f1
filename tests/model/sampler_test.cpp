#include "model/generate/sampler.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/thrown.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const double infinity = std::numeric_limits<double>::infinity();

std::map<std::int64_t, double> shares(const std::vector<float>& logits,
                                      const SamplingOptions& options, int draws = 20000) {
  std::map<std::int64_t, double> count;
  for (int i = 0; i < draws; ++i) {
    count[sample(logits, options, uniform_draw(options.seed, i))] += 1.0 / draws;
  }
  return count;
}

TEST(Sampler, TemperatureZeroTakesTheLargestAndTheLowestIdOfEqualOnes) {
  const std::vector<float> logits{1, 3, -2, 3, 2};
  for (double uniform : {0.0, 0.5, 0.999})
    EXPECT_EQ(sample(logits, {.temperature = 0}, uniform), 1);
  EXPECT_EQ(sample(std::vector<float>(5, -7.f), {.temperature = 0}, 0.9), 0);
}

TEST(Sampler, TinyTemperaturesAreAlmostZeroAndNeverNan) {
  const std::vector<float> logits{-3e38f, 5.0f, 4.999f, 3e38f};
  for (double temperature : {1e-8, 1e-300, 5e-324}) {
    for (double uniform : {0.0, 0.5, 0.9999}) {
      EXPECT_EQ(sample(logits, {.temperature = temperature}, uniform), 3) << temperature;
    }
  }
  EXPECT_EQ(sample(std::vector<float>{2, 2}, {.temperature = 5e-324}, 0.75), 1);
}

TEST(Sampler, FollowsTheProbabilities) {
  const std::vector<float> logits{0.0f, std::log(3.0f), std::log(6.0f)};
  const auto plain = shares(logits, {.seed = 3});
  EXPECT_NEAR(plain.at(0), 0.1, 0.01);
  EXPECT_NEAR(plain.at(1), 0.3, 0.01);
  EXPECT_NEAR(plain.at(2), 0.6, 0.01);
  const auto sharp = shares(logits, {.temperature = 0.5, .seed = 3});  // 1 : 9 : 36
  EXPECT_NEAR(sharp.at(2), 36.0 / 46, 0.01);
}

TEST(Sampler, TopKKeepsTheLargest) {
  const std::vector<float> logits{1, 4, 2, 4, 0};
  const auto two = shares(logits, {.top_k = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(1), 0.5, 0.02);
  EXPECT_NEAR(two.at(3), 0.5, 0.02);
  EXPECT_EQ(shares(logits, {.top_k = 1}).begin()->first, 1);
  EXPECT_EQ(shares(logits, {.top_k = 100}).size(), 5u);
}

TEST(Sampler, TopPKeepsTheFewestThatReachTheShare) {
  const std::vector<float> logits{std::log(6.0f), 0.0f, std::log(3.0f)};  // 0.6, 0.1, 0.3
  EXPECT_EQ(shares(logits, {.top_p = 1e-12}).size(), 1u);
  EXPECT_EQ(shares(logits, {.top_p = 0.59}).size(), 1u);
  const auto two = shares(logits, {.top_p = 0.61});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(0), 2.0 / 3, 0.02);
  EXPECT_EQ(shares(logits, {.top_p = 0.91}).size(), 3u);
  EXPECT_EQ(shares(logits, {.top_p = 1}).size(), 3u);
}

TEST(Sampler, TopPCountsSharesOfWhatTopKLeft) {
  const std::vector<float> logits{std::log(4.0f), std::log(3.0f), std::log(3.0f)};
  // Of the two that are kept the first has 4/7 = 0.571, of all three only 0.4.
  EXPECT_EQ(shares(logits, {.top_k = 2, .top_p = 0.55}).size(), 1u);
  EXPECT_EQ(shares(logits, {.top_p = 0.55}).size(), 2u);
}

TEST(Sampler, EndsOfTheRangeStayInside) {
  const std::vector<float> logits(257, 0.1f);
  EXPECT_EQ(sample(logits, {}, 0.0), 0);
  EXPECT_EQ(sample(logits, {}, std::nextafter(1.0, 0.0)), 256);
}

TEST(Sampler, DrawsAreTheSameEverywhere) {
  EXPECT_EQ(uniform_draw(1, 0), 3316356330981164 * 0x1p-53);
  EXPECT_EQ(uniform_draw(1, 1), 8232782446381918 * 0x1p-53);
  EXPECT_EQ(uniform_draw(2, 0), 3532771828038384 * 0x1p-53);
  std::set<double> draws;
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    draws.insert(uniform_draw(1, i));
    sum += uniform_draw(1, i);
    EXPECT_NE(uniform_draw(1, i), uniform_draw(2, i));
  }
  EXPECT_EQ(draws.size(), 1000u);
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
  EXPECT_LT(*draws.rbegin(), 1.0);
}

TEST(Sampler, BadOptionsAreRefusedWithASentence) {
  for (double temperature : {-1.0, -1e-9, std::nan(""), infinity, -infinity}) {
    const std::string text = thrown([&] { validate({.temperature = temperature}); });
    EXPECT_THAT(
        text, AllOf(HasSubstr("--temperature"), HasSubstr("positive, finite"), HasSubstr("found")));
  }
  for (double top_p : {0.0, -0.1, 1.0001, std::nan("")}) {
    EXPECT_THAT(thrown([&] { validate({.top_p = top_p}); }),
                AllOf(HasSubstr("--top-p"), HasSubstr("at most 1")));
  }
  EXPECT_THAT(thrown([] { validate({.top_k = -1}); }),
              AllOf(HasSubstr("--top-k"), HasSubstr("-1")));
  EXPECT_EQ(thrown([] { validate({.temperature = 0, .top_k = 5, .top_p = 0.5}); }), "");
  EXPECT_EQ(thrown([] { validate({.temperature = 1e-8}); }), "");
}

TEST(Sampler, LogitsThatAreNotFiniteAreNamed) {
  for (float bad : {std::nanf(""), float(infinity), float(-infinity)}) {
    const std::vector<float> logits{0, 1, bad};
    for (double temperature : {0.0, 1.0}) {
      const std::string text = thrown([&] { sample(logits, {.temperature = temperature}, 0.5); });
      EXPECT_THAT(text,
                  AllOf(HasSubstr("no usable logits"), HasSubstr("id 2"), HasSubstr("diverged")));
    }
  }
  EXPECT_THAT(thrown([] { sample({}, {}, 0.5); }), HasSubstr("no number at all"));
}

}  // namespace
}  // namespace kha
