// One number of a row of float32 values, and how much of a vector its end fills.
#pragma once

#include "kernels/cpu/simd/vector.h"

namespace kha::cpu::KHA_SET {

// The lanes of one vector that `left` values fill.
KHA_INLINE std::int64_t first_of(std::int64_t left) { return left < lanes ? left : lanes; }

// The largest of at least one value; which one is not said where some are not numbers.
KHA_INLINE float largest_of(const float* x, std::int64_t count) {
  float largest = x[0];
  std::int64_t i = 0;
  if (count >= lanes) {
    Vector most = load(x);
    for (i = lanes; i + lanes <= count; i += lanes) most = max(most, load(x + i));
    float parts[lanes];
    store(parts, most);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      largest = parts[lane] > largest ? parts[lane] : largest;
    }
  }
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace kha::cpu::KHA_SET
