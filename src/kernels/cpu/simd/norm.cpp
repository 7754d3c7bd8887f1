// RMSNorm, alone and with the rotary embedding behind it, row by row.
#include "kernels/cpu/simd/block.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/norm_row.h"

namespace kha::cpu::KHA_SET {
namespace {

KHA_INLINE void clear(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = 0.0f;
}

// Where in the table the angles of a row begin.
KHA_INLINE std::int64_t angles_of(const Rotation& table, std::int64_t row, std::int64_t dim) {
  return row / table.heads % table.positions * dim;
}

// The lanes of channels i .. i + count - 1, and of those half a row further.
struct Halves {
  Vector low, high;
};

KHA_INLINE Halves load_halves(const float* from, std::int64_t half, std::int64_t count) {
  if (count == lanes) return {load(from), load(from + half)};
  return {load_first(from, count), load_first(from + half, count)};
}

KHA_INLINE void store_halves(float* to, std::int64_t half, Halves values, std::int64_t count) {
  if (count == lanes) {
    store(to, values.low);
    store(to + half, values.high);
  } else {
    store_first(to, values.low, count);
    store_first(to + half, values.high, count);
  }
}

KHA_INLINE Halves multiply(Halves a, Halves b) { return {mul(a.low, b.low), mul(a.high, b.high)}; }

KHA_INLINE Halves rotate(Halves n, Halves cos, Halves sin) {
  return {sub(mul(n.low, cos.low), mul(n.high, sin.low)),
          add(mul(n.high, cos.high), mul(n.low, sin.high))};
}

// The transpose of rotate.
KHA_INLINE Halves rotate_back(Halves g, Halves cos, Halves sin) {
  return {add(mul(g.low, cos.low), mul(g.high, sin.high)),
          sub(mul(g.high, cos.high), mul(g.low, sin.low))};
}

}  // namespace

void rms_norm(HeadView x, RowRange range, std::int64_t dim, const float* weight, float eps,
              float* y) {
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float* from = row_of(x, row);
    float* to = y + row * dim;
    const Vector r = all(inverse_rms(sum_of_squares(from, dim), dim, eps));
    std::int64_t i = 0;
    for (; i + lanes <= dim; i += lanes) {
      store(to + i, mul(load(weight + i), mul(load(from + i), r)));
    }
    if (i == dim) continue;
    const Vector n = mul(load_first(from + i, dim - i), r);
    store_first(to + i, mul(load_first(weight + i, dim - i), n), dim - i);
  }
}

void rms_norm_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                       const float* weight, float eps, float* dx, float* dweight) {
  clear(dweight, dim);
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    norm_row_backward(row_of(grad, row), row_of(x, row), weight, dim, eps, dx + row * dim, dweight);
  }
}

void norm_rope(HeadView x, RowRange range, std::int64_t dim, const float* weight, float eps,
               const Rotation& table, float* y) {
  const std::int64_t half = dim / 2;
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float* from = row_of(x, row);
    const std::int64_t angles = angles_of(table, row, dim);
    const Vector r = all(inverse_rms(sum_of_squares(from, dim), dim, eps));
    for (std::int64_t i = 0; i < half; i += lanes) {
      const std::int64_t count = first_of(half - i);
      const Halves quotient = multiply(load_halves(from + i, half, count), {r, r});
      const Halves n = multiply(load_halves(weight + i, half, count), quotient);
      const Halves cos = load_halves(table.cos + angles + i, half, count);
      const Halves sin = load_halves(table.sin + angles + i, half, count);
      store_halves(y + row * dim + i, half, rotate(n, cos, sin), count);
    }
  }
}

void norm_rope_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                        const float* weight, float eps, const Rotation& table, float* dx,
                        float* dweight) {
  const std::int64_t half = dim / 2;
  clear(dweight, dim);
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    const float* from = row_of(grad, row);
    const std::int64_t angles = angles_of(table, row, dim);
    float* to = dx + row * dim;
    for (std::int64_t i = 0; i < half; i += lanes) {
      const std::int64_t count = first_of(half - i);
      const Halves cos = load_halves(table.cos + angles + i, half, count);
      const Halves sin = load_halves(table.sin + angles + i, half, count);
      const Halves g = load_halves(from + i, half, count);
      store_halves(to + i, half, rotate_back(g, cos, sin), count);
    }
    norm_row_backward(to, row_of(x, row), weight, dim, eps, to, dweight);
  }
}

}  // namespace kha::cpu::KHA_SET
