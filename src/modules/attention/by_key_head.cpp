#include "modules/attention/by_key_head.h"

#include <ATen/Functions.h>

namespace kha {

// The g T rows of a group are one matrix.
at::Tensor scores_by_key_head(const at::Tensor& queries, const at::Tensor& keys) {
  const int64_t batch = queries.size(0), length = queries.size(1), heads = queries.size(2),
                width = queries.size(3), key_heads = keys.size(2),
                rows = heads / key_heads * length;
  const at::Tensor grouped = queries.transpose(1, 2).reshape({batch, key_heads, rows, width});
  return at::matmul(grouped, keys.permute({0, 2, 3, 1})).view({batch, heads, length, keys.size(1)});
}

at::Tensor sums_by_key_head(const at::Tensor& weights, const at::Tensor& values) {
  const int64_t batch = weights.size(0), heads = weights.size(1), length = weights.size(2),
                positions = weights.size(3), value_heads = values.size(2),
                rows = heads / value_heads * length;
  const at::Tensor grouped = weights.view({batch, value_heads, rows, positions});
  return at::matmul(grouped, values.transpose(1, 2))
      .view({batch, heads, length, values.size(3)})
      .transpose(1, 2);
}

}  // namespace kha
