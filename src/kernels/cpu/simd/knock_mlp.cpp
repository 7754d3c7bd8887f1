// The mlp map: y = 2 (x U^T * sigmoid(x G^T)) W^T, forward and backward in one pass over the rows.
//
// With u = x U^T, f = 2 sigmoid(x G^T), h = u * f: y = h W^T. Backward forms u, f again and has
// dh = dy W, du = dh * f, dg = dh * u * f (1 - f / 2), dx = du U + dg G,
// dU = du^T x, dG = dg^T x, dW = dy^T h.
// The factor 2 goes to the sigmoid: with G = 0 it is exactly 1, and the identity start is exact.
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/products.h"

namespace kha::cpu::KHA_SET {

// A tile of u becomes h = u * f. `logit` is a tile of its own.
KHA_INLINE void hidden_tile(const float* logit, float* hidden, std::int64_t stride) {
  for (std::int64_t r = 0; r < tile_rows; ++r) {
    for (std::int64_t c = 0; c < tile_columns; c += lanes) {
      float* h = hidden + r * stride + c;
      store(h, mul(load(h), twice_sigmoid(load(logit + r * tile_columns + c))));
    }
  }
}

void knock_mlp(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
               float* workspace) {
  const std::int64_t stride = block_stride(dim);
  float *x_block = workspace, *hidden = workspace + block_size(dim);
  alignas(64) float logit[tile_rows * tile_columns];
  for (std::int64_t done = 0; done < range.count; done += block_rows) {
    const std::int64_t start = range.first + done;
    const std::int64_t count = range.count - done < block_rows ? range.count - done : block_rows;
    fill_block(x, start, count, dim, x_block);
    Prefetch next = prefetch_behind(x, range, start, count, dim);
    for (std::int64_t p = 0; p < panels_of(dim); ++p) {
      for (std::int64_t first = 0; first < count; first += tile_rows) {
        float* h = hidden + first * stride + p * tile_columns;
        row_tile(x_block, first, map.up + p * panel_size(dim), dim, h, stride, false);
        row_tile(x_block, first, map.gate + p * panel_size(dim), dim, logit, tile_columns, false);
        prefetch(next, 6);
        hidden_tile(logit, h, stride);
      }
    }
    multiply_block<1>({{hidden, map.down}}, {y + start * dim, count, dim});
  }
}

// Tiles of u, the logits and dh become du, dg and h.
KHA_INLINE void gradient_tile(float* up, float* logit, float* hidden, std::int64_t stride) {
  for (std::int64_t r = 0; r < tile_rows; ++r) {
    for (std::int64_t c = 0; c < tile_columns; c += lanes) {
      float *u = up + r * stride + c, *g = logit + r * stride + c;
      float* h = hidden + r * tile_columns + c;
      const Vector u_value = load(u), dh = load(h);
      const Vector factor = twice_sigmoid(load(g));
      const Vector slope = fma(all(-0.5f), factor, all(1.0f));
      const Vector du = mul(dh, factor);
      store(h, mul(u_value, factor));
      store(u, du);
      store(g, mul(mul(du, u_value), slope));
    }
  }
}

// What one block needs, [block_rows, block_stride] each; h only for a panel of hidden units.
struct MlpBlock {
  float *x, *grad, *up, *logit, *hidden;
};

// du, dg and h of one panel of hidden units.
static void hidden_gradients(const MlpBlock& b, const PackedMap& map, std::int64_t panel,
                             std::int64_t count, std::int64_t dim, Prefetch& next_x,
                             Prefetch& next_grad) {
  const std::int64_t stride = block_stride(dim), offset = panel * panel_size(dim);
  for (std::int64_t first = 0; first < count; first += tile_rows) {
    const std::int64_t at = first * stride + panel * tile_columns;
    float* h = b.hidden + first * tile_columns;
    row_tile(b.x, first, map.up + offset, dim, b.up + at, stride, false);
    row_tile(b.x, first, map.gate + offset, dim, b.logit + at, stride, false);
    row_tile(b.grad, first, map.down_backward + offset, dim, h, tile_columns, false);
    prefetch(next_x, 6);
    prefetch(next_grad, 6);
    gradient_tile(b.up + at, b.logit + at, h, stride);
  }
}

static void add_matrix_gradients(const MlpBlock& b, const PartialGradients& partial,
                                 std::int64_t panel, std::int64_t count, std::int64_t dim,
                                 bool add) {
  const std::int64_t stride = block_stride(dim), column = panel * tile_columns;
  const std::int64_t offset = panel * partial_panel_size(dim);
  outer_products(b.x, stride, b.up + column, stride, count, dim, partial.up + offset, add);
  outer_products(b.x, stride, b.logit + column, stride, count, dim, partial.gate + offset, add);
  outer_products(b.grad, stride, b.hidden, tile_columns, count, dim, partial.down + offset, add);
}

void knock_mlp_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                        const PackedMap& map, float* dx, const PartialGradients& partial,
                        float* workspace) {
  const std::int64_t size = block_size(dim);
  const MlpBlock b{workspace, workspace + size, workspace + 2 * size, workspace + 3 * size,
                   workspace + 4 * size};
  for (std::int64_t done = 0; done < range.count; done += block_rows) {
    const std::int64_t start = range.first + done;
    const std::int64_t count = range.count - done < block_rows ? range.count - done : block_rows;
    fill_block(x, start, count, dim, b.x);
    fill_block(grad, start, count, dim, b.grad);
    Prefetch next_x = prefetch_behind(x, range, start, count, dim);
    Prefetch next_grad = prefetch_behind(grad, range, start, count, dim);
    for (std::int64_t p = 0; p < panels_of(dim); ++p) {
      hidden_gradients(b, map, p, count, dim, next_x, next_grad);
      add_matrix_gradients(b, partial, p, count, dim, done > 0);
    }
    multiply_block<2>({{b.up, map.up_backward}, {b.logit, map.gate_backward}},
                      {dx + start * dim, count, dim});
  }
}

// Four blocks and a panel of hidden units are the most that any map needs.
std::int64_t workspace_size(std::int64_t dim) {
  return 4 * block_size(dim) + block_rows * tile_columns;
}

}  // namespace kha::cpu::KHA_SET
