// The products of folding: one map with all heads of a weight, in place, on all cores.
//
// Each sum runs in the order of the inner index, every product rounded before it is added, so the
// bits depend neither on the number of threads nor on the instruction set.
#pragma once

#include <cstdint>

namespace kha {

// Where the heads of a weight stand: `count` blocks, the first at `first`, one each `stride`.
struct HeadBlocks {
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;
};

// weight: row-major, `columns` wide; heads are blocks of `width` rows. block <- map block.
void multiply_row_blocks(double* weight, std::int64_t columns, const HeadBlocks& heads,
                         const double* map, std::int64_t width);

// weight: row-major, [rows, columns]; heads are blocks of `width` columns, side by side.
// block <- block map.
void multiply_column_blocks(double* weight, std::int64_t rows, std::int64_t columns,
                            const double* map, std::int64_t width);

}  // namespace kha
