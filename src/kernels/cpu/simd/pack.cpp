// Packing of matrices for the tiles, and adding up what the pieces found.
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/products.h"

namespace kha::cpu::KHA_SET {

std::int64_t packed_size(std::int64_t dim) { return panels_of(dim) * panel_size(dim); }

std::int64_t partial_size(std::int64_t dim) { return panels_of(dim) * partial_panel_size(dim); }

// x M: row k of the panel is a stretch of M's row k.
static void pack_rows(const float* matrix, std::int64_t dim, std::int64_t column, float* panel) {
  const std::int64_t width = dim - column < tile_columns ? dim - column : tile_columns;
  for (std::int64_t k = 0; k < dim; ++k) {
    float* to = panel + k * tile_columns;
    copy_row(matrix + k * dim + column, width, to);
    for (std::int64_t c = width; c < tile_columns; ++c) to[c] = 0.0f;
  }
}

// x M^T: row k of the panel is a stretch of M's column k.
static void pack_columns(const float* matrix, std::int64_t dim, std::int64_t column, float* panel) {
  const std::int64_t width = dim - column < tile_columns ? dim - column : tile_columns;
  for (std::int64_t k = 0; k < dim; ++k) {
    float* to = panel + k * tile_columns;
    for (std::int64_t c = 0; c < width; ++c) to[c] = matrix[(column + c) * dim + k];
    for (std::int64_t c = width; c < tile_columns; ++c) to[c] = 0.0f;
  }
}

void pack(const float* matrix, std::int64_t dim, PackedFor use, float* packed) {
  for (std::int64_t p = 0; p < panels_of(dim); ++p) {
    float* panel = packed + p * panel_size(dim);
    if (use == PackedFor::product) {
      pack_rows(matrix, dim, p * tile_columns, panel);
    } else {
      pack_columns(matrix, dim, p * tile_columns, panel);
    }
  }
}

// Partials hold matrix element (row, panel * tile_columns + c) at [panel][row][c].
static void sum_as_stored(const float* partials, std::int64_t pieces, std::int64_t piece_stride,
                          std::int64_t dim, RowRange rows, float* matrix) {
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    for (std::int64_t column = 0; column < dim; column += lanes) {
      const float* part = partials + column / tile_columns * partial_panel_size(dim) +
                          row * tile_columns + column % tile_columns;
      Vector sum = load(part);
      for (std::int64_t i = 1; i < pieces; ++i) sum = add(sum, load(part + i * piece_stride));
      const std::int64_t left = dim - column;
      store_first(matrix + row * dim + column, sum, left < lanes ? left : lanes);
    }
  }
}

// Partials hold matrix element (panel * tile_columns + c, column) at [panel][column][c].
static void sum_transposed(const float* partials, std::int64_t pieces, std::int64_t piece_stride,
                           std::int64_t dim, RowRange rows, float* matrix) {
  alignas(64) float sums[lanes];
  for (std::int64_t row = rows.first / lanes * lanes; row < rows.first + rows.count; row += lanes) {
    for (std::int64_t column = 0; column < dim; ++column) {
      const float* part = partials + row / tile_columns * partial_panel_size(dim) +
                          column * tile_columns + row % tile_columns;
      Vector sum = load(part);
      for (std::int64_t i = 1; i < pieces; ++i) sum = add(sum, load(part + i * piece_stride));
      store(sums, sum);
      for (std::int64_t i = 0; i < lanes; ++i) {
        const std::int64_t r = row + i;
        if (r >= rows.first && r < rows.first + rows.count) matrix[r * dim + column] = sums[i];
      }
    }
  }
}

void sum_partials(const float* partials, std::int64_t pieces, std::int64_t piece_stride,
                  std::int64_t dim, PartialOrder order, RowRange rows, float* matrix) {
  if (order == PartialOrder::as_stored) {
    sum_as_stored(partials, pieces, piece_stride, dim, rows, matrix);
  } else {
    sum_transposed(partials, pieces, piece_stride, dim, rows, matrix);
  }
}

}  // namespace kha::cpu::KHA_SET
