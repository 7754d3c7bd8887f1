// The speed that a run's FLOP/s are held against, measured in the same process.
#pragma once

#include <string>

#include "train/gradient.h"

namespace kha {

// Multiply-adds in float32 with every operand in a register, the widest vectors that the processor
// has: no product of matrices can be faster.
struct Ceiling {
  double flops = 0;             // operations a second, 2 a multiply-add; 0: not known
  int threads = 0;              // that ran at once
  std::string instruction_set;  // "avx2"
};

// On as many threads as torch uses now (or on `threads` of them), the best of several short
// windows, about 0.1 s in all.
Ceiling measure_ceiling();
Ceiling measure_ceiling(int threads);

// The ceiling of a run: unknown where its arithmetic is not float32 on the CPU.
Ceiling ceiling_of(const Arithmetic& arithmetic);

// "198 GFLOP/s (fp32 multiply-adds in registers, avx2, 2 threads)", or why there is none.
std::string in_words(const Ceiling& ceiling);

}  // namespace kha
