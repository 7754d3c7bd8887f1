// The maps of a few rows, as decoding calls them, with the matrices as they are stored: reading
// them once is what such a call costs, and packing would read them twice.
//
// Up to six rows are dot products with the matrices' rows. More lie transposed, one row a column
// of a tile: then the matrix is the tile's left side, the result is transposed again, and what one
// product gives is what the next takes.
#include "kernels/cpu/simd/block.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/tile.h"

namespace kha::cpu::KHA_SET {

constexpr int dot_outputs = 4, most_dots = 3;
constexpr int tall_rows = lanes == 1 ? 4 : 12;  // of tiles one vector wide

// Room for few rows in either layout; the kernels here use three.
KHA_INLINE std::int64_t few_size(std::int64_t dim) {
  return (round_up(few_rows, tile_rows) + 1) * block_stride(dim);
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

// How a few rows lie in memory: as rows, or transposed and `width` vectors wide.
struct Few {
  std::int64_t rows, dim;
  int width;  // 0: as rows

  std::int64_t stride() const { return width == 0 ? block_stride(dim) : width * lanes; }
  std::int64_t size() const { return width == 0 ? rows * stride() : dim * stride(); }
};

KHA_INLINE Few few(std::int64_t rows, std::int64_t dim) {
  const bool as_rows = rows <= 2 * most_dots || dim < tall_rows;
  const int vectors = static_cast<int>((rows + lanes - 1) / lanes);
  return {rows, dim, as_rows ? 0 : vectors == 1 ? 1 : tile_vectors};
}

// Past dim the last output is made again, into the room beside the row.
static void dot_products(const float* x, const Few& f, const float* matrix, float* out) {
  const std::int64_t stride = f.stride();
  for (std::int64_t o = 0; o < f.dim; o += dot_outputs) {
    const float* row[dot_outputs];
    for (int i = 0; i < dot_outputs; ++i) {
      row[i] = matrix + (o + i < f.dim ? o + i : f.dim - 1) * f.dim;
    }
    for (std::int64_t r = 0; r < f.rows; r += most_dots) {
      const float* from = x + r * stride;
      float* to = out + r * stride + o;
      if (f.rows - r == 1) dots<1>(from, stride, row, f.dim, to, stride);
      if (f.rows - r == 2) dots<2>(from, stride, row, f.dim, to, stride);
      if (f.rows - r >= 3) dots<3>(from, stride, row, f.dim, to, stride);
    }
  }
}

// The last tile ends at dim, over rows of the one before it.
template <int M, int V>
static void tile_products(const float* x, const Few& f, const float* matrix, float* out) {
  for (std::int64_t o = 0; o < f.dim; o += M) {
    const std::int64_t first = o + M <= f.dim ? o : f.dim - M;
    tile<M, Side::rows, V>({matrix + first * f.dim, f.dim, x, V * lanes, f.dim},
                           out + first * V * lanes, V * lanes, false);
  }
}

// out = x M^T in the same layout.
static void few_products(const float* x, const Few& f, const float* matrix, float* out) {
  if (f.width == 0) {
    dot_products(x, f, matrix, out);
  } else if (f.width == 1) {
    tile_products<tall_rows, 1>(x, f, matrix, out);
  } else {
    tile_products<tile_rows, tile_vectors>(x, f, matrix, out);
  }
}

static void take_rows(const HeadView& x, const Few& f, float* to) {
  if (f.width == 0) return fill_block(x, 0, f.rows, f.dim, to);
  const std::int64_t stride = f.stride();
  for (std::int64_t i = 0; i < f.size(); ++i) to[i] = 0.0f;
  for (std::int64_t r = 0; r < f.rows; ++r) {
    const float* row = row_of(x, r);
    for (std::int64_t i = 0; i < f.dim; ++i) to[i * stride + r] = row[i];
  }
}

static void give_rows(const float* from, const Few& f, float* y) {
  const std::int64_t stride = f.stride();
  for (std::int64_t r = 0; r < f.rows; ++r) {
    if (f.width == 0) {
      copy_row(from + r * stride, f.dim, y + r * f.dim);
    } else {
      for (std::int64_t i = 0; i < f.dim; ++i) y[r * f.dim + i] = from[i * stride + r];
    }
  }
}

// values *= 2 sigmoid(logits), whatever the layout; what lies between the rows is not read.
static void gate_values(const float* logits, const Few& f, float* values) {
  const std::int64_t line = f.width == 0 ? f.dim : f.size(), lines = f.width == 0 ? f.rows : 1;
  for (std::int64_t r = 0; r < lines; ++r) {
    for (std::int64_t i = r * f.stride(); i < r * f.stride() + line; i += lanes) {
      store(values + i, mul(load(values + i), twice_sigmoid(load(logits + i))));
    }
  }
}

void few_linear(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
                float* workspace) {
  const Few f = few(rows, dim);
  float* product = workspace + few_size(dim);
  take_rows(x, f, workspace);
  few_products(workspace, f, map.up, product);
  give_rows(product, f, y);
}

void few_gate(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
              float* workspace) {
  const Few f = few(rows, dim);
  float* logits = workspace + few_size(dim);
  take_rows(x, f, workspace);
  few_products(workspace, f, map.gate, logits);
  gate_values(logits, f, workspace);
  give_rows(workspace, f, y);
}

void few_mlp(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
             float* workspace) {
  const Few f = few(rows, dim);
  float *hidden = workspace + few_size(dim), *logits = workspace + 2 * few_size(dim);
  take_rows(x, f, workspace);
  few_products(workspace, f, map.up, hidden);
  few_products(workspace, f, map.gate, logits);
  gate_values(logits, f, hidden);
  few_products(hidden, f, map.down, workspace);
  give_rows(workspace, f, y);
}

}  // namespace kha::cpu::KHA_SET
