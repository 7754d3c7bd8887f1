// The gate map: y = 2 x * sigmoid(x G^T).
//
// With f = 2 sigmoid(x G^T): y = x * f, df/dlogit = f (1 - f / 2),
// dx = dy * f + dlogit G, dG = dlogit^T x.
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/products.h"

namespace kha::cpu::KHA_SET {

void knock_gate(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                float* workspace) {
  const std::int64_t stride = block_stride(dim);
  alignas(64) float part[tile_rows * tile_columns];
  for (std::int64_t done = 0; done < range.count; done += block_rows) {
    const std::int64_t start = range.first + done;
    const std::int64_t count = range.count - done < block_rows ? range.count - done : block_rows;
    fill_block(x, start, count, dim, workspace);
    for (std::int64_t p = 0; p < panels_of(dim); ++p) {
      for (std::int64_t first = 0; first < count; first += tile_rows) {
        row_tile(workspace, first, map.gate + p * panel_size(dim), dim, part, tile_columns, false);
        for (std::int64_t i = 0; i < tile_rows * tile_columns; i += lanes) {
          const float* value =
              workspace + (first + i / tile_columns) * stride + p * tile_columns + i % tile_columns;
          store(part + i, mul(load(value), twice_sigmoid(load(part + i))));
        }
        put_tile(part, {y + start * dim, count, dim}, first, p * tile_columns);
      }
    }
  }
}

// One tile of logits becomes their gradient; dy * f goes where dx will stand.
KHA_INLINE void gate_tile(const float* x, const float* grad, float* logit, float* direct,
                          std::int64_t stride) {
  for (std::int64_t r = 0; r < tile_rows; ++r) {
    for (std::int64_t i = r * stride; i < r * stride + tile_columns; i += lanes) {
      const Vector factor = twice_sigmoid(load(logit + i));
      const Vector through = mul(load(grad + i), factor);
      const Vector slope = fma(all(-0.5f), factor, all(1.0f));
      store(direct + i, through);
      store(logit + i, mul(mul(load(x + i), through), slope));
    }
  }
}

void knock_gate_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                         const PackedMap& map, float* dx, const PartialGradients& partial,
                         float* workspace) {
  const std::int64_t stride = block_stride(dim), size = block_size(dim);
  float *x_block = workspace, *grad_block = workspace + size, *dlogit = workspace + 2 * size;
  float* direct = workspace + 3 * size;
  for (std::int64_t done = 0; done < range.count; done += block_rows) {
    const std::int64_t start = range.first + done;
    const std::int64_t count = range.count - done < block_rows ? range.count - done : block_rows;
    fill_block(x, start, count, dim, x_block);
    fill_block(grad, start, count, dim, grad_block);
    for (std::int64_t p = 0; p < panels_of(dim); ++p) {
      for (std::int64_t first = 0; first < count; first += tile_rows) {
        const std::int64_t at = first * stride + p * tile_columns;
        row_tile(x_block, first, map.gate + p * panel_size(dim), dim, dlogit + at, stride, false);
        gate_tile(x_block + at, grad_block + at, dlogit + at, direct + at, stride);
      }
      outer_products(x_block, stride, dlogit + p * tile_columns, stride, count, dim,
                     partial.gate + p * partial_panel_size(dim), done > 0);
    }
    add_product({dlogit, map.gate_backward}, direct, {dx + start * dim, count, dim});
  }
}

}  // namespace kha::cpu::KHA_SET
