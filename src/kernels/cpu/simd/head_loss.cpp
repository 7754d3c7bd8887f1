// Rows of logits become losses, and in place the gradient of the logits.
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/reductions.h"

namespace kha::cpu::KHA_SET {
namespace {

// x_i becomes e^(x_i - shift); returns their sum.
float exponentiate(float* x, std::int64_t count, float shift) {
  // Four sums: each adds a quarter of the terms, so it rounds less, and none waits for another.
  Vector sum[4] = {zero(), zero(), zero(), zero()};
  const Vector by = all(shift);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const Vector e = exponential(sub(load(x + i + part * lanes), by));
      store(x + i + part * lanes, e);
      sum[part] = add(sum[part], e);
    }
  }
  for (; i < count; i += lanes) {
    const std::int64_t left = first_of(count - i);
    store_first(x + i, exponential(sub(load_first(x + i, left), by)), left);
    sum[0] = add(sum[0], load_first(x + i, left));  // read again: the lanes beyond are zero
  }
  return sum_of_lanes(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}

void scale(float* x, std::int64_t count, float factor) {
  const Vector by = all(factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(x + i, mul(load(x + i), by));
  for (; i < count; ++i) x[i] *= factor;
}

void set_zero(float* x, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(x + i, zero());
  for (; i < count; ++i) x[i] = 0.0f;
}

}  // namespace

void head_loss(float* logits, std::int64_t rows, std::int64_t width, const std::int64_t* targets,
               const float* scales, float* losses) {
  for (std::int64_t row = 0; row < rows; ++row, logits += width) {
    losses[row] = 0.0f;
    if (targets[row] < 0) {
      if (scales) set_zero(logits, width);
      continue;
    }
    float& wanted = logits[targets[row]];
    const float largest = largest_of(logits, width);
    const double distance = static_cast<double>(largest) - static_cast<double>(wanted);
    const float sum = exponentiate(logits, width, largest);
    losses[row] = static_cast<float>(__builtin_log(static_cast<double>(sum)) + distance);
    if (!scales) continue;
    scale(logits, width, scales[row] / sum);
    wanted -= scales[row];
  }
}

}  // namespace kha::cpu::KHA_SET
