// The ceiling that figures are held against: multiply-adds with every operand in a register.
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/tile.h"

namespace kha::cpu::KHA_SET {

double probe_multiply_add(std::int64_t rounds) {
  // Eight chains or more hide the latency of a multiply-add on every processor with two units;
  // twelve and the two factors fit AVX2's sixteen registers.
  constexpr int chains = 12, repeats = 16;
  Vector sum[chains];
#pragma GCC unroll 16
  for (int i = 0; i < chains; ++i) sum[i] = all(1.0f + static_cast<float>(i));
  Vector factor = all(0.999f), addend = all(0.001f);
  for (std::int64_t round = 0; round < rounds; ++round) {
    pin(factor);
    pin(addend);
#pragma GCC unroll 16
    for (int repeat = 0; repeat < repeats; ++repeat) {
#pragma GCC unroll 16
      for (int i = 0; i < chains; ++i) sum[i] = fma(sum[i], factor, addend);
    }
  }
  Vector total = zero();
#pragma GCC unroll 16
  for (int i = 0; i < chains; ++i) total = add(total, sum[i]);
  volatile float kept = sum_of_lanes(total);  // else the compiler drops it all
  (void)kept;
  return 2.0 * chains * repeats * static_cast<double>(lanes) * static_cast<double>(rounds);
}

}  // namespace kha::cpu::KHA_SET
