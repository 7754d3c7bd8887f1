#include "kha/core/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace kha {
namespace {

const std::vector<std::string> names{"linear", "mlp", "gate", "none", "learning_rate"};

TEST(NearestName, FindsOneEditOfEveryKind) {
  EXPECT_EQ(nearest_name("linaer", names), "linear");  // two letters swapped: two edits
  EXPECT_EQ(nearest_name("gat", names), "gate");
  EXPECT_EQ(nearest_name("mmlp", names), "mlp");
  EXPECT_EQ(nearest_name("nine", names), "none");
}

TEST(NearestName, TakesTheNearerOfTwo) {
  const std::vector<std::string> two{"warmup", "warmup_steps"};
  EXPECT_EQ(nearest_name("warmup_step", two), "warmup_steps");
  EXPECT_EQ(nearest_name("warmups", two), "warmup");
}

TEST(NearestName, DistanceMayReachHalfOfTheLength) {
  const std::vector<std::string> one{"abcdefgh"};
  EXPECT_EQ(nearest_name("abcdWXYZ", one), "abcdefgh");    // 4 of 8
  EXPECT_EQ(nearest_name("abcVWXYZ", one), std::nullopt);  // 5 of 8
  EXPECT_EQ(nearest_name("x", {{"ab"}}), "ab");            // at least 2 are allowed
  EXPECT_EQ(nearest_name("x", {{"abc"}}), std::nullopt);
}

TEST(NearestName, NothingAmongNothing) { EXPECT_EQ(nearest_name("linear", {}), std::nullopt); }

TEST(DidYouMean, SaysTheNameOrNothing) {
  EXPECT_EQ(did_you_mean("learning_rat", names), " (did you mean `learning_rate`?)");
  EXPECT_EQ(did_you_mean("completely-different", names), "");
}

}  // namespace
}  // namespace kha
