// The sum of squares that a gradient's norm is the root of.
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/norm_row.h"

namespace kha::cpu::KHA_SET {

double square_sum(const float* x, std::int64_t count) {
  // Added up in float32: few enough that each lane rounds little.
  constexpr std::int64_t stretch = 128 * 2 * lanes;
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; i += stretch) {
    const std::int64_t left = count - i;
    sum += static_cast<double>(sum_of_squares(x + i, left < stretch ? left : stretch));
  }
  return sum;
}

}  // namespace kha::cpu::KHA_SET
