// RMSNorm of one row of float32 values, forward and backward.
#pragma once

#include "kernels/cpu/simd/reductions.h"

namespace kha::cpu::KHA_SET {

// sum_i x_i^2 and sum_i w_i g_i x_i, what a row's norm and its gradient need of all its values.
struct RowSums {
  float square, dot;
};

// 1 / sqrt(mean(x^2) + eps)
KHA_INLINE float inverse_rms(float square, std::int64_t dim, float eps) {
  return 1.0f / __builtin_sqrtf(square / static_cast<float>(dim) + eps);
}

KHA_INLINE float sum_of_squares(const float* x, std::int64_t dim) {
  Vector sum[2] = {zero(), zero()};
  std::int64_t i = 0;
  for (; i + 2 * lanes <= dim; i += 2 * lanes) {
    const Vector a = load(x + i), b = load(x + i + lanes);
    sum[0] = fma(a, a, sum[0]);
    sum[1] = fma(b, b, sum[1]);
  }
  for (; i < dim; i += lanes) {
    const Vector a = load_first(x + i, first_of(dim - i));
    sum[0] = fma(a, a, sum[0]);
  }
  return sum_of_lanes(add(sum[0], sum[1]));
}

KHA_INLINE RowSums row_sums(const float* grad, const float* x, const float* weight,
                            std::int64_t dim) {
  Vector square = zero(), dot = zero();
  std::int64_t i = 0;
  for (; i + lanes <= dim; i += lanes) {
    const Vector a = load(x + i);
    square = fma(a, a, square);
    dot = fma(mul(load(weight + i), load(grad + i)), a, dot);
  }
  if (i < dim) {
    const std::int64_t left = dim - i;
    const Vector a = load_first(x + i, left);
    square = fma(a, a, square);
    dot = fma(mul(load_first(weight + i, left), load_first(grad + i, left)), a, dot);
  }
  return {sum_of_lanes(square), sum_of_lanes(dot)};
}

// With r = 1 / rms(x): dx_j = r w_j g_j - x_j r^3 mean_i(w_i g_i x_i), and x_j r g_j is added to
// dweight_j. grad may be dx itself.
KHA_INLINE void norm_row_backward(const float* grad, const float* x, const float* weight,
                                  std::int64_t dim, float eps, float* dx, float* dweight) {
  const RowSums sums = row_sums(grad, x, weight, dim);
  const float inverse = inverse_rms(sums.square, dim, eps);
  const Vector r = all(inverse);
  const float mean = inverse * (sums.dot / static_cast<float>(dim));  // no larger than w g is
  const Vector along = all(-(inverse * inverse) * mean);
  std::int64_t i = 0;
  for (; i + lanes <= dim; i += lanes) {
    const Vector g = mul(load(grad + i), r), a = load(x + i);
    store(dweight + i, fma(g, a, load(dweight + i)));
    store(dx + i, fma(g, load(weight + i), mul(a, along)));
  }
  if (i < dim) {
    const std::int64_t left = dim - i;
    const Vector g = mul(load_first(grad + i, left), r), a = load_first(x + i, left);
    store_first(dweight + i, fma(g, a, load_first(dweight + i, left)), left);
    store_first(dx + i, fma(g, load_first(weight + i, left), mul(a, along)), left);
  }
}

}  // namespace kha::cpu::KHA_SET
