#include "model/self_test/self_test.h"

#include <gmock/gmock.h>

#include <limits>
#include <stdexcept>

namespace kha {
namespace {

using testing::HasSubstr;

TEST(SelfTest, HoldsHere) {
  auto checks = operator_checks();
  for (auto& check : model_checks()) checks.push_back(check);
  EXPECT_GE(checks.size(), 15u);
  for (const auto& result : run_checks(checks)) {
    EXPECT_TRUE(result.ok) << result.name << ": " << result.measured.figure << " > "
                           << result.measured.limit << result.error;
  }
}

TEST(SelfTest, GoesOnAfterAFailureAndSaysWhy) {
  const auto results =
      run_checks({{"too large",
                   [] {
                     return Measured{2, 1};
                   }},
                  {"throws", []() -> Measured { throw std::runtime_error("the reason"); }},
                  {"no number",
                   [] {
                     return Measured{std::numeric_limits<double>::quiet_NaN(), 1};
                   }},
                  {"good", [] {
                     return Measured{1, 1};
                   }}});
  ASSERT_EQ(results.size(), 4u);
  EXPECT_FALSE(results[0].ok);
  EXPECT_FALSE(results[1].ok);
  EXPECT_THAT(results[1].error, HasSubstr("the reason"));
  EXPECT_FALSE(results[2].ok);
  EXPECT_TRUE(results[3].ok);
}

}  // namespace
}  // namespace kha
