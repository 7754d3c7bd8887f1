#include "kha/core/machine_facts.h"

#include <gtest/gtest.h>

namespace kha {
namespace {

TEST(MachineFacts, CpuModelIsTheFirstProcessors) {
  EXPECT_EQ(
      cpu_model(
          "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 2.0GHz\n\nmodel name : Other\n"),
      "Fast CPU @ 2.0GHz");
  EXPECT_EQ(cpu_model("processor: 0\nmodel name\t:\n"), "unknown");
  EXPECT_EQ(cpu_model(""), "unknown");
}

TEST(MachineFacts, TheChosenWordStandsInBrackets) {
  EXPECT_EQ(chosen_in_brackets("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_in_brackets("[always] madvise never\n"), "always");
  EXPECT_EQ(chosen_in_brackets(""), "unknown");
  EXPECT_EQ(chosen_in_brackets("]["), "unknown");
}

TEST(MachineFacts, ThisMachineHasACoreAndMemory) {
  const MachineFacts facts = machine_facts();
  EXPECT_GE(facts.cores, 1);
  EXPECT_GT(facts.memory, 1 << 20);
  EXPECT_FALSE(facts.cpu.empty());
}

}  // namespace
}  // namespace kha
