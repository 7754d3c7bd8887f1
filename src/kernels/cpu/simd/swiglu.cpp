// SwiGLU: y = silu(gate) * up, and both gradients in one pass; the same with a weight a row, as an
// expert's tokens have, and the sum of their results.
#include "kernels/cpu/simd/block.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/reductions.h"

namespace kha::cpu::KHA_SET {
namespace {

// silu(g) = g s with s = sigmoid(g), and its slope s (1 + g (1 - s)).
struct Silu {
  Vector value, slope;
};

KHA_INLINE Silu silu(Vector g) {
  const Vector s = sigmoid(g);
  return {mul(g, s), mul(s, fma(g, sub(all(1.0f), s), all(1.0f)))};
}

struct Slopes {
  Vector gate, up;
};

KHA_INLINE Vector value(Vector g, Vector u) { return mul(silu(g).value, u); }

KHA_INLINE Slopes slopes(Vector grad, Silu own, Vector u) {
  return {mul(mul(grad, u), own.slope), mul(grad, own.value)};
}

// As many values as a vector takes, or a row's last `count`.
KHA_INLINE Vector load_up_to(const float* x, std::int64_t count) {
  return count == lanes ? load(x) : load_first(x, count);
}
KHA_INLINE void store_up_to(float* to, Vector value, std::int64_t count) {
  if (count == lanes) {
    store(to, value);
  } else {
    store_first(to, value, count);
  }
}

// Calls step(i, count) for the vectors of [first, first + width): whole ones, and what is left.
template <class Step>
KHA_INLINE void for_vectors(std::int64_t first, std::int64_t width, const Step& step) {
  std::int64_t i = first;
  for (; i + lanes <= first + width; i += lanes) step(i, lanes);
  if (i < first + width) step(i, first + width - i);
}

}  // namespace

void swiglu(HeadView gate, HeadView up, RowRange range, std::int64_t width, float* y) {
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float *g = row_of(gate, row), *u = row_of(up, row);
    float* to = y + row * width;
    for_vectors(
        0, width, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
          store_up_to(to + i, value(load_up_to(g + i, count), load_up_to(u + i, count)), count);
        });
  }
}

void swiglu_backward(HeadView grad, HeadView gate, HeadView up, RowRange range, std::int64_t width,
                     float* dgate, float* dup) {
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float *d = row_of(grad, row), *g = row_of(gate, row), *u = row_of(up, row);
    float *to_gate = dgate + row * width, *to_up = dup + row * width;
    for_vectors(
        0, width, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
          const Silu own = silu(load_up_to(g + i, count));
          const Slopes both = slopes(load_up_to(d + i, count), own, load_up_to(u + i, count));
          store_up_to(to_gate + i, both.gate, count);
          store_up_to(to_up + i, both.up, count);
        });
  }
}

void weighted_swiglu(const WeightedGates& in, float* y) {
  for (std::int64_t row = 0; row < in.rows; ++row) {
    const Vector weight = all(in.weights[row]);
    for_vectors(
        row * in.width,
        in.width, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
          const Vector own = value(load_up_to(in.gate + i, count), load_up_to(in.up + i, count));
          store_up_to(y + i, mul(own, weight), count);
        });
  }
}

void weighted_swiglu_backward(const float* grad, const WeightedGates& in,
                              const WeightedGateGradients& to) {
  for (std::int64_t row = 0; row < in.rows; ++row) {
    const Vector weight = all(in.weights[row]);
    Vector sum = zero();
    for_vectors(
        row * in.width,
        in.width, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
          const Vector d = load_up_to(grad + i, count), u = load_up_to(in.up + i, count);
          const Silu gate = silu(load_up_to(in.gate + i, count));
          const Vector own = mul(gate.value, u);
          const Slopes both = slopes(mul(d, weight), gate, u);
          sum = fma(d, own, sum);
          store_up_to(to.y + i, mul(own, weight), count);
          store_up_to(to.gate + i, both.gate, count);
          store_up_to(to.up + i, both.up, count);
        });
    to.weights[row] = sum_of_lanes(sum);
  }
}

void add_rows(const float* rows, const std::int64_t* places, std::int64_t count, std::int64_t width,
              float* sum) {
  for (std::int64_t row = 0; row < count; ++row, rows += width) {
    float* const to = sum + places[row] * width;
    for_vectors(
        0, width, [&](std::int64_t i, std::int64_t left) __attribute__((always_inline)) {
          store_up_to(to + i, add(load_up_to(to + i, left), load_up_to(rows + i, left)), left);
        });
  }
}

}  // namespace kha::cpu::KHA_SET
