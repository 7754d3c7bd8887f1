// A block of queries with a block of keys: which of them see one another, and the products that
// leave out the tiles where none does.
#pragma once

#include "kernels/cpu/simd/block.h"

namespace kha::cpu::KHA_SET {

// Queries, and keys, of one block. Whole tiles either way: scores are a panel of tile_columns keys,
// and rows of a gradient where they stand transposed.
constexpr std::int64_t attention_rows = block_rows;
static_assert(attention_rows % tile_rows == 0 && attention_rows % tile_columns == 0);

KHA_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Row stride of a block of scores.
KHA_INLINE std::int64_t score_stride() { return block_stride(attention_rows); }

// What the queries of a block see of a block of keys.
struct Sight {
  std::int64_t rows;   // queries
  std::int64_t keys;   // keys
  std::int64_t first;  // keys that the first query sees were the block without an end; may be < 0

  // Of the keys, those before this one are seen.
  std::int64_t seen_by(std::int64_t row) const {
    const std::int64_t seen = smaller(first + row, keys);
    return seen < 0 ? 0 : seen;
  }
  // By any query of the tile that begins at `row`.
  std::int64_t seen_by_tile(std::int64_t row) const {
    return seen_by(smaller(row + tile_rows, rows) - 1);
  }
  // The first query that sees key `key`.
  std::int64_t first_to_see(std::int64_t key) const { return key < first ? 0 : key - first + 1; }
  // Columns of a row's scores that later products may read: those of its own tile of queries, and
  // of the tile of keys that begins before its last.
  std::int64_t columns_read(std::int64_t row) const {
    const std::int64_t seen = seen_by_tile(row / tile_rows * tile_rows);
    return smaller(round_up(seen + tile_rows, lanes), attention_rows);
  }
};

KHA_INLINE Sight sight_of(const AttentionGroup& in, RowRange queries, std::int64_t key) {
  return {.rows = queries.count,
          .keys = smaller(in.keys.count - key, attention_rows),
          .first = queries.first + in.keys.count - in.length - key + 1};
}

// scores = rows * panels, in the tiles that are seen. `rows`: a block of width `dim`; panels of
// tile_columns keys, `dim` deep. Meanwhile rows of a later block come nearer.
static inline void score_product(const float* rows, const float* panels, std::int64_t dim,
                                 const Sight& sight, Prefetch& next, float* scores) {
  const std::int64_t stride = block_stride(dim), to = score_stride();
  for (std::int64_t key = 0; key < sight.keys; key += tile_columns) {
    const std::int64_t begin = sight.first_to_see(key) / tile_rows * tile_rows;
    for (std::int64_t row = begin; row < sight.rows; row += tile_rows) {
      tile<tile_rows, Side::rows>(
          {rows + row * stride, stride, panels + key * dim, tile_columns, dim},
          scores + row * to + key, to, /*add_to_c=*/false);
      prefetch(next, 8);
    }
  }
}

// Rows first .. first + count - 1 as panels of tile_columns rows, each `rows.width` deep: what
// score_product multiplies by. The last panel is filled up with zeros.
static inline void pack_panels(Rows<const float> rows, std::int64_t first, std::int64_t count,
                               float* panels) {
  for (std::int64_t panel = 0; panel < count;
       panel += tile_columns, panels += rows.width * tile_columns) {
    const std::int64_t width = smaller(count - panel, tile_columns);
    for (std::int64_t c = 0; c < width; ++c) {
      const float* from = rows[first + panel + c];
      for (std::int64_t k = 0; k < rows.width; ++k) panels[k * tile_columns + c] = from[k];
    }
    for (std::int64_t c = width; c < tile_columns; ++c) {
      for (std::int64_t k = 0; k < rows.width; ++k) panels[k * tile_columns + c] = 0.0f;
    }
  }
}

KHA_INLINE std::int64_t panels_size(std::int64_t rows, std::int64_t dim) {
  return round_up(rows, tile_columns) * dim;
}

// Rows into a block, times `factor`; what is beside them and below, up to whole tiles, is zero.
static inline void fill_scaled(const float* from, std::int64_t stride, std::int64_t count,
                               std::int64_t dim, float factor, float* block) {
  const std::int64_t to = block_stride(dim);
  const Vector by = all(factor);
  for (std::int64_t r = 0; r < round_up(count, tile_rows); ++r) {
    float* row = block + r * to;
    std::int64_t i = 0;
    if (r < count) {
      for (; i + lanes <= dim; i += lanes) store(row + i, mul(load(from + r * stride + i), by));
      for (; i < dim; ++i) row[i] = from[r * stride + i] * factor;
    }
    for (; i < to; ++i) row[i] = 0.0f;
  }
}

KHA_INLINE HeadView head_view(const GroupRows<const float>& rows, std::int64_t head) {
  return {.data = rows.row(head, 0), .heads = 1, .outer_stride = rows.stride, .head_stride = 0};
}

// The block of queries behind the one that begins at `query`.
KHA_INLINE Prefetch prefetch_queries(const HeadView& rows, std::int64_t query, std::int64_t end,
                                     std::int64_t dim) {
  return prefetch_behind(rows, {0, end}, query, smaller(end - query, attention_rows), dim);
}

KHA_INLINE void fill(float* x, std::int64_t begin, std::int64_t end, float value) {
  for (std::int64_t i = begin; i < end; ++i) x[i] = value;
}

}  // namespace kha::cpu::KHA_SET
