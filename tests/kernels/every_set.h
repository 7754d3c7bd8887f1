// The kernels of every instruction set by the names that tests give them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kha/kernels/cpu_kernels.h"

// The kernels with 16 lanes in plain loops (vector_of_16.h).
namespace kha::cpu::lanes16 {
extern const CpuKernels kernels;
}

namespace kha::test {

// None where the processor lacks the set's instructions.
struct NamedKernels {
  std::string name;
  const CpuKernels* kernels;
};

inline std::vector<NamedKernels> all_kernels() {
  std::vector<NamedKernels> all{{"lanes16", &cpu::lanes16::kernels}};
  for (InstructionSet set : all_instruction_sets) {
    all.push_back({std::string(to_string(set)), is_usable(set) ? &cpu_kernels(set) : nullptr});
  }
  return all;
}

// One run of a test for each set; a set that this processor lacks is skipped by name.
class EverySet : public testing::TestWithParam<NamedKernels> {
 protected:
  void SetUp() override {
    if (!GetParam().kernels) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }
  const CpuKernels& kernels() const { return *GetParam().kernels; }
};

}  // namespace kha::test
