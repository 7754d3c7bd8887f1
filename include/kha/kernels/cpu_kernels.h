// The float32 kernels of one instruction set, as a table of functions.
//
// Manners of all of them: nothing is allocated, thrown or checked, no thread is started; the caller
// brings workspace and cuts work into pieces. Outputs are overwritten and overlap nothing. NaN and
// infinity propagate. For equal input and pieces the bits are equal, whatever runs beside.
#pragma once

#include <cstdint>

#include "kha/kernels/instruction_set.h"

namespace kha {

struct CpuKernels {
  InstructionSet set;
  std::int64_t lanes;  // float32 values a vector

  // The processor's speed with operands in registers: `rounds` times 192 multiply-adds a lane
  // through independent accumulators. Returns the operations made, 2 a multiply-add.
  double (*probe_multiply_add)(std::int64_t rounds);
};

// The kernels of a usable set (is_usable); of another set the scalar ones.
const CpuKernels& cpu_kernels(InstructionSet set);

}  // namespace kha
