// SwiGLU: y = silu(gate) * up, and both gradients in one pass.
#include "kernels/cpu/simd/block.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/reductions.h"

namespace kha::cpu::KHA_SET {
namespace {

struct Slopes {
  Vector gate, up;
};

KHA_INLINE Vector value(Vector g, Vector u) { return mul(mul(g, sigmoid(g)), u); }

// dsilu/dg = s (1 + g (1 - s))
KHA_INLINE Slopes slopes(Vector grad, Vector g, Vector u) {
  const Vector s = sigmoid(g);
  const Vector slope = mul(s, fma(g, sub(all(1.0f), s), all(1.0f)));
  return {mul(mul(grad, u), slope), mul(grad, mul(g, s))};
}

}  // namespace

void swiglu(HeadRows gate, HeadRows up, RowRange range, std::int64_t width, float* y) {
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float *g = row_of(gate, row), *u = row_of(up, row);
    float* to = y + row * width;
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) store(to + i, value(load(g + i), load(u + i)));
    if (i == width) continue;
    const std::int64_t left = width - i;
    store_first(to + i, value(load_first(g + i, left), load_first(u + i, left)), left);
  }
}

void swiglu_backward(HeadRows grad, HeadRows gate, HeadRows up, RowRange range, std::int64_t width,
                     float* dgate, float* dup) {
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float *d = row_of(grad, row), *g = row_of(gate, row), *u = row_of(up, row);
    float *to_gate = dgate + row * width, *to_up = dup + row * width;
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const Slopes both = slopes(load(d + i), load(g + i), load(u + i));
      store(to_gate + i, both.gate);
      store(to_up + i, both.up);
    }
    if (i == width) continue;
    const std::int64_t left = width - i;
    const Slopes both =
        slopes(load_first(d + i, left), load_first(g + i, left), load_first(u + i, left));
    store_first(to_gate + i, both.gate, left);
    store_first(to_up + i, both.up, left);
  }
}

}  // namespace kha::cpu::KHA_SET
