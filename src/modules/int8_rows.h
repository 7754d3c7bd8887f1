// Rows of a tensor as int8 with a scale each; the formula is that of kha/kernels/reference_cache.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha {

struct Int8Rows {
  at::Tensor values;  // [.., width] int8, from -127 to 127
  at::Tensor scales;  // [.., 1] float32
};

// A row is the last dimension of x. The scale is float32: it holds the largest element of a row of
// any type that models have, which float16 does not, and costs 4 bytes beside the row's `width`.
// Zeros stay zeros. A row with an element that is not finite comes back as such: its scale is not.
Int8Rows to_int8(const at::Tensor& x);
at::Tensor from_int8(const Int8Rows& rows, at::ScalarType dtype);

}  // namespace kha
