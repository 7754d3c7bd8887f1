// The two products of the map kernels, in tiles: a block's rows with a packed matrix, and the sum
// over a block's rows of the outer products of two of its vectors.
#pragma once

#include "kernels/cpu/simd/block.h"

namespace kha::cpu::KHA_SET {

// A packed matrix is a row of panels, each tile_columns wide and `dim` deep.
KHA_INLINE std::int64_t panel_size(std::int64_t dim) { return dim * tile_columns; }
KHA_INLINE std::int64_t panels_of(std::int64_t dim) { return padded_columns(dim) / tile_columns; }

// The tile of `block`'s rows first .. first + tile_rows - 1 with one panel.
KHA_INLINE void row_tile(const float* block, std::int64_t first, const float* panel,
                         std::int64_t dim, float* c, std::int64_t c_stride, bool add_to_c) {
  const std::int64_t stride = block_stride(dim);
  tile<tile_rows, Side::rows>({block + first * stride, stride, panel, tile_columns, dim}, c,
                              c_stride, add_to_c);
}

// Where a product's rows go: adjacent rows of `dim` values, of which `count` exist.
struct RowOutput {
  float* data;
  std::int64_t count;
  std::int64_t dim;
};

// One tile of results into rows that may end inside it.
static inline void put_tile(const float* c, RowOutput out, std::int64_t first,
                            std::int64_t column) {
  const std::int64_t width = out.dim - column < tile_columns ? out.dim - column : tile_columns;
  for (std::int64_t r = first; r < first + tile_rows && r < out.count; ++r) {
    copy_row(c + (r - first) * tile_columns, width, out.data + r * out.dim + column);
  }
}

// A block with the packed matrix behind it; a product may have two such terms.
struct Term {
  const float* block;
  const float* packed;
};

// out = sum over the terms of block * matrix. The tile writes into the rows where it fits whole.
template <int terms>
static void multiply_block(const Term (&term)[terms], RowOutput out) {
  const std::int64_t dim = out.dim;
  alignas(64) float part[tile_rows * tile_columns];
  for (std::int64_t panel = 0; panel < panels_of(dim); ++panel) {
    const std::int64_t column = panel * tile_columns;
    for (std::int64_t first = 0; first < out.count; first += tile_rows) {
      const bool whole = first + tile_rows <= out.count && column + tile_columns <= dim;
      float* c = whole ? out.data + first * dim + column : part;
      for (int t = 0; t < terms; ++t) {
        row_tile(term[t].block, first, term[t].packed + panel * panel_size(dim), dim, c,
                 whole ? dim : tile_columns, t > 0);
      }
      if (!whole) put_tile(part, out, first, column);
    }
  }
}

// out = sum + block * matrix, with `sum` a block too. The product is summed from zero and added
// last: begun at `sum`, every term would round at its size.
static inline void add_product(const Term& term, const float* sum, RowOutput out) {
  const std::int64_t dim = out.dim, stride = block_stride(dim);
  alignas(64) float part[tile_rows * tile_columns];
  for (std::int64_t panel = 0; panel < panels_of(dim); ++panel) {
    const std::int64_t column = panel * tile_columns;
    for (std::int64_t first = 0; first < out.count; first += tile_rows) {
      row_tile(term.block, first, term.packed + panel * panel_size(dim), dim, part, tile_columns,
               false);
      for (std::int64_t i = 0; i < tile_rows * tile_columns; i += lanes) {
        const float* other = sum + (first + i / tile_columns) * stride + column + i % tile_columns;
        store(part + i, add(load(part + i), load(other)));
      }
      put_tile(part, out, first, column);
    }
  }
}

// Rows of a partial gradient's panel: the tiles' heights cover `dim` and may pass it.
KHA_INLINE std::int64_t partial_rows(std::int64_t dim) {
  return round_up(dim, low_tile_rows) + tile_rows;
}
KHA_INLINE std::int64_t partial_panel_size(std::int64_t dim) {
  return partial_rows(dim) * tile_columns;
}

// How many low tiles, at most two, let tiles of both heights cover `dim` rows most closely.
KHA_INLINE std::int64_t low_tiles(std::int64_t dim) {
  std::int64_t best = 0, least = round_up(dim, tile_rows);
  for (std::int64_t low = 1; low <= 2; ++low) {
    const std::int64_t rest = dim - low * low_tile_rows;
    const std::int64_t covered = low * low_tile_rows + (rest > 0 ? round_up(rest, tile_rows) : 0);
    if (covered < least) {
      best = low;
      least = covered;
    }
  }
  return best;
}

// panel [dim, tile_columns] (+)= sum over `depth` rows of a[row, :] (outer) b[row, 0 ..
// tile_columns).
static inline void outer_products(const float* a, std::int64_t a_stride, const float* b,
                                  std::int64_t b_stride, std::int64_t depth, std::int64_t dim,
                                  float* panel, bool add_to_panel) {
  const std::int64_t low = low_tiles(dim);
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < low; ++i, row += low_tile_rows) {
    tile<low_tile_rows, Side::transposed>({a + row, a_stride, b, b_stride, depth},
                                          panel + row * tile_columns, tile_columns, add_to_panel);
  }
  for (; row < dim; row += tile_rows) {
    tile<tile_rows, Side::transposed>({a + row, a_stride, b, b_stride, depth},
                                      panel + row * tile_columns, tile_columns, add_to_panel);
  }
}

}  // namespace kha::cpu::KHA_SET
