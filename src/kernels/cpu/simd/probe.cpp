// The ceiling that figures are held against: multiply-adds with every operand in a register.
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/vector.h"

namespace kha::cpu::KHA_SET {

double probe_multiply_add(std::int64_t rounds) {
  // Eight chains or more hide the latency of a multiply-add on every processor with two units.
  constexpr int chains = 16;
  Vector sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = all(1.0f + static_cast<float>(i));
  Vector factor = all(0.999f), addend = all(0.001f);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int repeat = 0; repeat < 16; ++repeat) {
#pragma GCC unroll 16
      for (int i = 0; i < chains; ++i) sum[i] = fma(sum[i], factor, addend);
    }
  }
  Vector total = zero();
  for (int i = 0; i < chains; ++i) total = add(total, sum[i]);
  volatile float kept = sum_of_lanes(total);  // else the compiler drops it all
  (void)kept;
  return 2.0 * 256 * static_cast<double>(lanes) * static_cast<double>(rounds);
}

}  // namespace kha::cpu::KHA_SET
