// Blocks: a few rows at a time, copied beside one another so that they stay in cache.
#pragma once

#include "kernels/cpu/simd/tile.h"
#include "kha/kernels/cpu_kernels.h"

namespace kha::cpu::KHA_SET {

// A multiple of tile_rows: high enough that the transposed products, whose depth it is, seldom
// touch their results; low enough that four blocks of D = 128 stay in a cache of 512 KB.
constexpr std::int64_t block_rows = lanes == 1 ? 32 : 96;
// From this many rows on packing the matrices pays: below, a row is a column of one tile.
constexpr std::int64_t few_rows = tile_columns + 1;
static_assert(few_rows <= block_rows);
static_assert(block_rows % tile_rows == 0);

KHA_INLINE std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Columns of a map's matrices in whole tiles.
KHA_INLINE std::int64_t padded_columns(std::int64_t dim) { return round_up(dim, tile_columns); }

// The row stride of a block: room for whole tiles in both directions, and an odd multiple of 16
// floats, so that rows do not fall on the same few sets of the cache.
KHA_INLINE std::int64_t block_stride(std::int64_t dim) {
  const std::int64_t high = round_up(dim, low_tile_rows) + tile_rows;
  const std::int64_t wide = padded_columns(dim);
  return (round_up(high > wide ? high : wide, 16) / 16 | 1) * 16;
}

KHA_INLINE std::int64_t block_size(std::int64_t dim) { return block_rows * block_stride(dim); }

KHA_INLINE const float* row_of(const HeadView& x, std::int64_t row) {
  return x.data + row / x.heads * x.outer_stride + row % x.heads * x.head_stride;
}

KHA_INLINE void copy_row(const float* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(from + i));
  if (i < count) store_first(to + i, load_first(from + i, count - i), count - i);
}

// Rows first .. first + count - 1 of x into a block. What is beside them and below, up to whole
// tiles, is zero: it takes part in products.
static inline void fill_block(const HeadView& x, std::int64_t first, std::int64_t count,
                              std::int64_t dim, float* block) {
  const std::int64_t stride = block_stride(dim);
  for (std::int64_t r = 0; r < count; ++r) {
    copy_row(row_of(x, first + r), dim, block + r * stride);
    for (std::int64_t i = dim; i < stride; ++i) block[r * stride + i] = 0.0f;
  }
  for (std::int64_t i = count * stride; i < round_up(count, tile_rows) * stride; ++i) {
    block[i] = 0.0f;
  }
}

// Brings the rows of the next block into the second cache while the present one is multiplied, a
// few lines of 64 bytes at a time: copied cold, a block waits for memory as long as a twentieth of
// the mlp map's product takes.
struct Prefetch {
  const HeadView& x;
  std::int64_t row, end, dim;
  std::int64_t column = 0;
};

// Of the block behind rows first .. first + count - 1 of `range`.
KHA_INLINE Prefetch prefetch_behind(const HeadView& x, RowRange range, std::int64_t first,
                                    std::int64_t count, std::int64_t dim) {
  const std::int64_t next = first + count, end = range.first + range.count;
  return {x, next, end - next < block_rows ? end : next + block_rows, dim};
}

KHA_INLINE void prefetch(Prefetch& next, int lines) {
  for (int i = 0; i < lines && next.row < next.end; ++i) {
    __builtin_prefetch(row_of(next.x, next.row) + next.column, 0, 2);
    next.column += 16;
    if (next.column < next.dim) continue;
    next.column = 0;
    ++next.row;
  }
}

}  // namespace kha::cpu::KHA_SET
