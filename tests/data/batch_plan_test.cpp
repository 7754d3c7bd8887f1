#include "kha/core/batch_plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/data/keyed_order.h"
#include "core/data/mixture_order.h"
#include "data/text_files.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;

std::vector<std::int64_t> begins(const std::vector<Window>& windows) {
  std::vector<std::int64_t> result;
  for (const Window& window : windows) result.push_back(window.begin);
  return result;
}

TEST(KeyedPermutation, ReachesEveryIndexOnce) {
  for (const std::uint64_t count : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000}) {
    for (std::uint64_t key = 0; key < 20; ++key) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < count; ++i) seen.insert(keyed_permutation(i, count, key));
      EXPECT_EQ(seen.size(), count);
      EXPECT_LT(*seen.rbegin(), count);
    }
  }
}

TEST(KeyedPermutation, IsEvenOverKeys) {
  constexpr int count = 5, keys = 20000;
  int hits[count][count] = {};
  for (std::uint64_t key = 0; key < keys; ++key) {
    for (int i = 0; i < count; ++i) ++hits[i][keyed_permutation(i, count, mix(key))];
  }
  // Five standard deviations of a count of mean 4000.
  for (const auto& row : hits) EXPECT_THAT(row, Each(AllOf(Gt(3717), Lt(4283))));
}

// Numbers of a second implementation, in another language: no machine and no later change may give
// other batches.
TEST(BatchPlan, GivesTheSameWindowsEverywhere) {
  const BatchPlan plan(1000, 16, 4, 42);
  EXPECT_EQ(plan.windows_per_epoch(), 61);
  EXPECT_THAT(begins(plan.windows(0)), ElementsAre(517, 597, 549, 741));
  EXPECT_THAT(begins(plan.windows(1000)), ElementsAre(27, 811, 699, 283));
}

TEST(BatchPlan, AnEpochVisitsItsWindowsOnceWithoutOverlap) {
  for (const std::int64_t tokens : {17, 18, 33, 48, 49, 500, 1000}) {
    const BatchPlan plan(tokens, 16, 1, 7);
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      std::set<std::int64_t> seen;
      for (std::int64_t i = 0; i < plan.windows_per_epoch(); ++i) {
        const Window window = plan.windows(epoch * plan.windows_per_epoch() + i).front();
        EXPECT_EQ(window.targets, 16);
        EXPECT_GE(window.begin, 0);
        EXPECT_LE(window.begin + 17, tokens);
        seen.insert(window.begin);
      }
      ASSERT_EQ(static_cast<std::int64_t>(seen.size()), plan.windows_per_epoch());
      EXPECT_EQ(*seen.rbegin() - *seen.begin(), 16 * (plan.windows_per_epoch() - 1));
      EXPECT_LT(*seen.begin(), 16);
    }
  }
}

TEST(BatchPlan, OrderAndOffsetChangeWithEpochAndSeed) {
  const auto epoch = [](std::uint64_t seed, std::int64_t number) {
    const BatchPlan plan(1000, 16, 61, seed);
    return begins(plan.windows(number));
  };
  EXPECT_EQ(epoch(1, 0), epoch(1, 0));
  EXPECT_NE(epoch(1, 0), epoch(1, 1));
  EXPECT_NE(epoch(1, 0), epoch(2, 0));
  std::set<std::int64_t> offsets;
  for (std::int64_t number = 0; number < 200; ++number) {
    const auto starts = epoch(1, number);
    offsets.insert(*std::ranges::min_element(starts));
  }
  EXPECT_EQ(offsets.size(), 16u);
}

TEST(BatchPlan, MicroBatchesAreTheBatchInPieces) {
  const BatchPlan plan(1000, 16, 6, 3);
  std::vector<Window> pieces = plan.windows(9, 0, 2);
  for (const Window& window : plan.windows(9, 2, 4)) pieces.push_back(window);
  EXPECT_EQ(pieces, plan.windows(9));
}

TEST(BatchPlan, TheStreamOfSequencesDoesNotDependOnTheBatchSize) {
  const BatchPlan one(1000, 16, 1, 3), five(1000, 16, 5, 3);
  for (std::int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(one.windows(i).front(), five.windows(i / 5)[i % 5]);
  }
}

TEST(BatchPlan, PositionSaysWhereAStepStarts) {
  const BatchPlan plan(1000, 16, 10, 3);
  const DataPosition position = plan.position(13);
  EXPECT_EQ(position.step, 13);
  EXPECT_EQ(position.sequence_index, 130);
  EXPECT_EQ(position.epoch, 2);
  EXPECT_EQ(position.window_begin, plan.windows(13).front().begin);
  plan.check(position);
}

TEST(BatchPlan, RefusesASavedPositionOfOtherData) {
  const DataPosition saved = BatchPlan(1000, 16, 10, 3).position(13);
  const auto refusal = [&](const BatchPlan& plan) {
    return message_of([&] { plan.check(saved); });
  };
  EXPECT_THAT(
      refusal(BatchPlan(1000, 16, 10, 4)),
      AllOf(HasSubstr("does not fit this data"), HasSubstr("step 13"),
            HasSubstr("sequence 130, in epoch 2"), HasSubstr("data seed"), HasSubstr("init.from")));
  EXPECT_THAT(refusal(BatchPlan(1000, 16, 5, 3)), HasSubstr("sequences per batch changed"));
  DataPosition damaged = saved;
  damaged.step = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(message_of([&] { BatchPlan(1000, 16, 10, 3).check(damaged); }),
              HasSubstr("step is too large"));
  damaged.step = -1;
  EXPECT_THAT(message_of([&] { BatchPlan(1000, 16, 10, 3).check(damaged); }),
              HasSubstr("step is too small"));
}

TEST(BatchPlan, RefusesImpossibleSizes) {
  EXPECT_THAT(
      message_of([] { BatchPlan(16, 16, 1, 0); }),
      AllOf(HasSubstr("shorter than one window"), HasSubstr("context 16"), HasSubstr("16 tokens")));
  EXPECT_THAT(message_of([] { BatchPlan(10, 0, 1, 0); }), HasSubstr("context is too small"));
  EXPECT_THAT(message_of([] { BatchPlan(10, 4, 0, 0); }), HasSubstr("sequences per batch"));
  EXPECT_THAT(message_of([] { BatchPlan(10, 4, 2, 0).windows(0, 1, 2); }),
              AllOf(HasSubstr("outside its batch"), HasSubstr("2 sequences from 1")));
}

// After any number of sequences, every source has had its share to within one.
TEST(MixtureOrder, KeepsSharesToWithinOneSequence) {
  const std::vector<std::vector<double>> mixtures = {{1},
                                                     {0.5, 0.5},
                                                     {0.7, 0.3},
                                                     {0.7, 0.2, 0.1},
                                                     {1, 1, 1},
                                                     {2, 3, 5, 7, 11},
                                                     {0.9, 0.05, 0.03, 0.02},
                                                     {0.123, 0.877},
                                                     {3.14159, 1},
                                                     {0.5, 0.25, 0.125, 0.0625, 0.0625}};
  for (const auto& weights : mixtures) {
    const MixtureOrder order(weights);
    const auto period = static_cast<double>(order.period());
    std::vector<std::int64_t> given(weights.size());
    for (std::int64_t i = 0; i < 2 * std::min<std::int64_t>(order.period(), 5000); ++i) {
      for (std::size_t s = 0; s < weights.size(); ++s) {
        ASSERT_EQ(order.before(i, static_cast<std::int64_t>(s)), given[s]);
        const double share = static_cast<double>(order.share(static_cast<std::int64_t>(s)));
        ASSERT_LT(std::abs(static_cast<double>(given[s]) - static_cast<double>(i) * share / period),
                  1.0)
            << "source " << s << " of " << weights.size() << ", sequence " << i;
      }
      ++given[order.source(i)];
    }
  }
}

TEST(MixtureOrder, TakesWeightsExactlyWhereItCan) {
  const MixtureOrder order(std::vector<double>{0.7, 0.2, 0.1});
  EXPECT_EQ(order.period(), 10);
  EXPECT_EQ(order.share(0), 7);
  const MixtureOrder odd(std::vector<double>{3.14159265, 1});
  EXPECT_EQ(odd.period(), 65536);
  EXPECT_NEAR(static_cast<double>(odd.share(1)), 65536 / 4.14159265, 1);
}

TEST(MixtureOrder, RefusesWeightsThatAreNone) {
  const auto refusal = [](std::vector<double> weights) {
    return message_of([&] { MixtureOrder order(weights); });
  };
  EXPECT_THAT(refusal({1, 0}), AllOf(HasSubstr("not above 0"), HasSubstr("number 2")));
  EXPECT_THAT(refusal({-1}), HasSubstr("found:    -1"));
  EXPECT_THAT(refusal({std::nan("")}), HasSubstr("nan"));
  EXPECT_THAT(refusal({1e9, 1.5}), HasSubstr("too small beside the others"));
}

TEST(BatchPlan, OneSourceOfAnyWeightIsTheRunWithoutWeights) {
  const BatchPlan alone(1000, 16, 4, 42);
  const BatchPlan weighted(std::vector<PlanSource>{{1000, 0.3}}, 16, 4, 42);
  for (std::int64_t step = 0; step < 100; ++step) {
    EXPECT_EQ(weighted.windows(step), alone.windows(step));
    EXPECT_EQ(weighted.position(step), alone.position(step));
  }
}

TEST(BatchPlan, EachSourceHasItsOwnEpochs) {
  const BatchPlan plan(std::vector<PlanSource>{{500, 3}, {200, 1}}, 16, 1, 7);
  const BatchPlan first(500, 16, 1, 7);
  std::int64_t of_first = 0, of_second = 0;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 44; ++i) {
    const Window window = plan.windows(i).front();
    if (window.source == 0) {
      EXPECT_EQ(window.begin, first.windows(of_first++).front().begin);
    } else if (of_second++ < 11) {  // its first epoch
      EXPECT_TRUE(seen.insert(window.begin).second);
    }
    EXPECT_LE(window.begin + 17, window.source == 0 ? 500 : 200);
  }
  EXPECT_EQ(of_first, 33);
  EXPECT_EQ(of_second, 11);
  const DataPosition saved = plan.position(30);
  plan.check(saved);
  EXPECT_THAT(message_of([&] {
                BatchPlan(std::vector<PlanSource>{{500, 1}, {200, 3}}, 16, 1, 7).check(saved);
              }),
              HasSubstr("its weights"));
}

TEST(EvaluationWindows, CoverEveryTargetOnce) {
  EXPECT_THAT(evaluation_windows(11, 4, 0), ElementsAre(Window{0, 4}, Window{4, 4}, Window{8, 2}));
  EXPECT_THAT(evaluation_windows(9, 4, 0), ElementsAre(Window{0, 4}, Window{4, 4}));
  EXPECT_THAT(evaluation_windows(9, 4, 8), ElementsAre(Window{0, 4}, Window{4, 4}));
  EXPECT_THAT(evaluation_windows(3, 4, 0), ElementsAre(Window{0, 2}));
  EXPECT_THAT(evaluation_windows(1, 4, 0), ElementsAre());
}

TEST(EvaluationWindows, SpreadEvenlyWhereTheyMayNotTakeAll) {
  EXPECT_THAT(begins(evaluation_windows(1001, 10, 50)), ElementsAre(0, 200, 400, 600, 800));
  EXPECT_THAT(begins(evaluation_windows(1001, 10, 59)), ElementsAre(0, 200, 400, 600, 800));
  EXPECT_THAT(begins(evaluation_windows(1001, 10, 3)), ElementsAre(0));
}

}  // namespace
}  // namespace kha
