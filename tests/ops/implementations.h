// Tests that run once for every implementation of the CPU kernels, each named in the output.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kha/ops/cpu_implementation.h"

namespace kha::test {

// One implementation a test, chosen for its duration; one that this processor lacks is skipped.
class EachImplementation : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto set = parse_instruction_set(GetParam());
    if (set && !is_usable(*set)) GTEST_SKIP() << "this processor lacks " << GetParam();
    kha::ops::set_cpu_implementation(GetParam());
  }
  void TearDown() override { kha::ops::set_cpu_implementation("auto"); }
};

#define KHA_FOR_EACH_IMPLEMENTATION(suite)                                               \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::Values("aten", "scalar", "avx2", "avx512"), \
                           [](const auto& info) { return info.param; })

}  // namespace kha::test
