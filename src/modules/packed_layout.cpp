#include "modules/packed_layout.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace kha {

at::Tensor text_positions(const at::Tensor& text, int64_t queries) {
  const at::Tensor counted = (text.cumsum(1, at::kLong) - 1).clamp_min(0);
  return counted.narrow(1, text.size(1) - queries, queries).flatten();
}

}  // namespace kha
