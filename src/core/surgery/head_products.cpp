#include "core/surgery/head_products.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "core/machine/worker_threads.h"

namespace kha {
namespace {

// A tile of the result: 4 x 8 float64 are 8 of the 16 registers of AVX2, next to two of the right
// side and one of the left. `Four` is two registers where a register holds two.
constexpr std::int64_t tile_rows = 4, tile_columns = 8;
using Four = double __attribute__((vector_size(32), aligned(8), may_alias));

constexpr std::int64_t columns_a_task = 512;
constexpr std::int64_t products_worth_a_thread = std::int64_t{1} << 20;

// tile [4, 8] = left [depth, 4] transposed, times right [depth, 8].
__attribute__((always_inline)) inline void tile_body(const double* left, const double* right,
                                                     std::int64_t depth, double* tile) {
  Four sums[tile_rows][2] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    const auto* row = reinterpret_cast<const Four*>(right + k * tile_columns);
    const Four first = row[0], second = row[1];
    for (std::int64_t i = 0; i < tile_rows; ++i) {
      const double factor = left[k * tile_rows + i];
      const Four all = {factor, factor, factor, factor};
      sums[i][0] += all * first;
      sums[i][1] += all * second;
    }
  }
  auto* out = reinterpret_cast<Four*>(tile);
  for (std::int64_t i = 0; i < tile_rows; ++i) {
    out[2 * i] = sums[i][0];
    out[2 * i + 1] = sums[i][1];
  }
}

using Tile = void (*)(const double*, const double*, std::int64_t, double*);

void tile_of_any(const double* left, const double* right, std::int64_t depth, double* tile) {
  tile_body(left, right, depth, tile);
}

__attribute__((target("avx2"))) void tile_of_avx2(const double* left, const double* right,
                                                  std::int64_t depth, double* tile) {
  tile_body(left, right, depth, tile);
}

Tile choose_tile() { return __builtin_cpu_supports("avx2") ? tile_of_avx2 : tile_of_any; }

std::int64_t tiles(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

// Rows of a matrix in groups of four, each group [depth, 4]; rows beyond the last are zeros.
void pack_left(const double* from, std::int64_t stride, std::int64_t rows, std::int64_t depth,
               double* to) {
  for (std::int64_t i = 0; i < tile_rows; ++i) {
    for (std::int64_t k = 0; k < depth; ++k) {
      to[k * tile_rows + i] = i < rows ? from[i * stride + k] : 0;
    }
  }
}

// Columns of a matrix in groups of eight, each group [depth, 8]; the same with columns.
void pack_right(const double* from, std::int64_t stride, std::int64_t columns, std::int64_t depth,
                double* to) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t j = 0; j < tile_columns; ++j) {
      to[k * tile_columns + j] = j < columns ? from[k * stride + j] : 0;
    }
  }
}

void unpack(const double* tile, std::int64_t rows, std::int64_t columns, double* to,
            std::int64_t stride) {
  for (std::int64_t i = 0; i < std::min(rows, tile_rows); ++i) {
    std::copy_n(tile + i * tile_columns, std::min(columns, tile_columns), to + i * stride);
  }
}

// Calls task(0) ... task(count - 1), on all cores where the work is worth it.
void share_out(std::int64_t count, std::int64_t products,
               const std::function<void(std::int64_t)>& task) {
  std::atomic<std::int64_t> next{0};
  const auto threads = std::clamp<std::int64_t>(products / products_worth_a_thread, 1,
                                                std::min<std::int64_t>(usable_cores(), count));
  on_threads(static_cast<int>(threads), [&] {
    for (std::int64_t one = next++; one < count; one = next++) task(one);
  });
}

}  // namespace

void multiply_row_blocks(double* weight, std::int64_t columns, const HeadBlocks& heads,
                         const double* map, std::int64_t width) {
  const std::int64_t groups = tiles(width, tile_rows), parts = tiles(columns, columns_a_task);
  if (heads.count == 0 || parts == 0) return;
  std::vector<double> left(static_cast<std::size_t>(groups * tile_rows * width));
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t row = group * tile_rows;
    pack_left(map + row * width, width, width - row, width, left.data() + row * width);
  }
  const Tile multiply = choose_tile();
  share_out(heads.count * parts, heads.count * width * width * columns, [&](std::int64_t task) {
    double* rows = weight + (heads.first + task / parts * heads.stride) * columns;
    std::vector<double> right(static_cast<std::size_t>(width * tile_columns));
    double tile[tile_rows * tile_columns];
    const std::int64_t begin = task % parts * columns_a_task;
    const std::int64_t end = std::min(begin + columns_a_task, columns);
    for (std::int64_t column = begin; column < end; column += tile_columns) {
      pack_right(rows + column, columns, end - column, width, right.data());
      for (std::int64_t row = 0; row < width; row += tile_rows) {
        multiply(left.data() + row * width, right.data(), width, tile);
        unpack(tile, width - row, end - column, rows + row * columns + column, columns);
      }
    }
  });
}

void multiply_column_blocks(double* weight, std::int64_t rows, std::int64_t columns,
                            const double* map, std::int64_t width) {
  const std::int64_t groups = tiles(width, tile_columns), row_groups = tiles(rows, tile_rows);
  if (columns == 0 || row_groups == 0) return;
  std::vector<double> right(static_cast<std::size_t>(groups * tile_columns * width));
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t column = group * tile_columns;
    pack_right(map + column, width, width - column, width, right.data() + column * width);
  }
  const Tile multiply = choose_tile();
  share_out(row_groups, rows * columns * width, [&](std::int64_t task) {
    std::vector<double> left(static_cast<std::size_t>(width * tile_rows));
    double tile[tile_rows * tile_columns];
    const std::int64_t row = task * tile_rows;
    for (std::int64_t head = 0; head < columns; head += width) {
      double* block = weight + row * columns + head;
      pack_left(block, columns, rows - row, width, left.data());
      for (std::int64_t column = 0; column < width; column += tile_columns) {
        multiply(left.data(), right.data() + column * width, width, tile);
        unpack(tile, rows - row, width - column, block + column, columns);
      }
    }
  });
}

}  // namespace kha
