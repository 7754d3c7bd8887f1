// The linear map: y = x M^T.
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/products.h"

namespace kha::cpu::KHA_SET {

void knock_linear(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                  float* workspace) {
  for (std::int64_t done = 0; done < range.count; done += block_rows) {
    const std::int64_t first = range.first + done;
    const std::int64_t count = range.count - done < block_rows ? range.count - done : block_rows;
    fill_block(x, first, count, dim, workspace);
    multiply_block<1>({{workspace, map.up}}, {y + first * dim, count, dim});
  }
}

void knock_linear_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                           const PackedMap& map, float* dx, const PartialGradients& partial,
                           float* workspace) {
  const std::int64_t stride = block_stride(dim);
  float *x_block = workspace, *grad_block = workspace + block_size(dim);
  for (std::int64_t done = 0; done < range.count; done += block_rows) {
    const std::int64_t first = range.first + done;
    const std::int64_t count = range.count - done < block_rows ? range.count - done : block_rows;
    fill_block(x, first, count, dim, x_block);
    fill_block(grad, first, count, dim, grad_block);
    multiply_block<1>({{grad_block, map.up_backward}}, {dx + first * dim, count, dim});
    for (std::int64_t p = 0; p < panels_of(dim); ++p) {
      outer_products(grad_block, stride, x_block + p * tile_columns, stride, count, dim,
                     partial.up + p * partial_panel_size(dim), done > 0);
    }
  }
}

}  // namespace kha::cpu::KHA_SET
