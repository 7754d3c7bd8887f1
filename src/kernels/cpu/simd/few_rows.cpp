// The maps of a few rows, as decoding calls them: dot products with the matrices as they are
// stored. Reading the matrices once is what such a call costs; packing them would read them twice.
#include "kernels/cpu/simd/block.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"

namespace kha::cpu::KHA_SET {

constexpr int dot_outputs = 4;

// A block of few rows; the kernels here use three.
KHA_INLINE std::int64_t few_size(std::int64_t dim) {
  return round_up(few_rows, tile_rows) * block_stride(dim);
}

std::int64_t few_workspace_size(std::int64_t dim) { return 3 * few_size(dim); }

// Dot products of R rows of x with four rows of a matrix, to out[row * out_stride + 0 .. 3].
template <int R>
[[gnu::noinline]] static void dots(const float* x, std::int64_t x_stride,
                                   const float* const (&matrix)[dot_outputs], std::int64_t dim,
                                   float* out, std::int64_t out_stride) {
  Vector sum[R][dot_outputs];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int o = 0; o < dot_outputs; ++o) sum[r][o] = zero();
  }
  std::int64_t k = 0;
  for (; k + lanes <= dim; k += lanes) {
    Vector weights[dot_outputs];
#pragma GCC unroll 4
    for (int o = 0; o < dot_outputs; ++o) weights[o] = load(matrix[o] + k);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vector row = load(x + r * x_stride + k);
#pragma GCC unroll 4
      for (int o = 0; o < dot_outputs; ++o) sum[r][o] = fma(row, weights[o], sum[r][o]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int o = 0; o < dot_outputs; ++o) {
      if (k < dim) {
        const Vector row = load_first(x + r * x_stride + k, dim - k);
        sum[r][o] = fma(row, load_first(matrix[o] + k, dim - k), sum[r][o]);
      }
      out[r * out_stride + o] = sum_of_lanes(sum[r][o]);
    }
  }
}

static void dots_of(std::int64_t rows, const float* x, std::int64_t stride,
                    const float* const (&matrix)[dot_outputs], std::int64_t dim, float* out) {
  if (rows == 1) return dots<1>(x, stride, matrix, dim, out, stride);
  if (rows == 2) return dots<2>(x, stride, matrix, dim, out, stride);
  dots<3>(x, stride, matrix, dim, out, stride);
}

// out [rows, dim] = x M^T; x and out are blocks. Past dim the last output is made again, into the
// room beside the row.
static void few_products(const float* x, std::int64_t rows, const float* matrix, std::int64_t dim,
                         float* out) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t o = 0; o < dim; o += dot_outputs) {
    const float* row[dot_outputs];
    for (int i = 0; i < dot_outputs; ++i) {
      row[i] = matrix + (o + i < dim ? o + i : dim - 1) * dim;
    }
    for (std::int64_t r = 0; r < rows; r += 3) {
      dots_of(rows - r, x + r * stride, stride, row, dim, out + r * stride + o);
    }
  }
}

static void copy_out(const float* block, std::int64_t rows, std::int64_t dim, float* y) {
  for (std::int64_t r = 0; r < rows; ++r) copy_row(block + r * block_stride(dim), dim, y + r * dim);
}

// values *= 2 sigmoid(logits), over whole block rows.
static void gate_values(const float* logits, std::int64_t rows, std::int64_t dim, float* values) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = r * stride; i < r * stride + dim; i += lanes) {
      store(values + i, mul(load(values + i), twice_sigmoid(load(logits + i))));
    }
  }
}

void few_linear(HeadRows x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
                float* workspace) {
  float* product = workspace + few_size(dim);
  fill_block(x, 0, rows, dim, workspace);
  few_products(workspace, rows, map.up, dim, product);
  copy_out(product, rows, dim, y);
}

void few_gate(HeadRows x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
              float* workspace) {
  float* logits = workspace + few_size(dim);
  fill_block(x, 0, rows, dim, workspace);
  few_products(workspace, rows, map.gate, dim, logits);
  gate_values(logits, rows, dim, workspace);
  copy_out(workspace, rows, dim, y);
}

void few_mlp(HeadRows x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
             float* workspace) {
  const std::int64_t size = few_size(dim);
  float *hidden = workspace + size, *logits = workspace + 2 * size;
  fill_block(x, 0, rows, dim, workspace);
  few_products(workspace, rows, map.up, dim, hidden);
  few_products(workspace, rows, map.gate, dim, logits);
  gate_values(logits, rows, dim, hidden);
  few_products(hidden, rows, map.down, dim, workspace);
  copy_out(workspace, rows, dim, y);
}

}  // namespace kha::cpu::KHA_SET
