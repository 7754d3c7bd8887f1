#include "modules/int8_rows.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace kha {

Int8Rows to_int8(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scales = wide.abs().amax(-1, /*keepdim=*/true) / 127.0;
  // A scale of zero belongs to zeros, or to what float32 cannot divide by 127: zeros then.
  const at::Tensor steps = (wide / scales.masked_fill(scales == 0, 1.0)).round_();
  // The clamp is for scales among the smallest numbers, which have few digits.
  return {steps.clamp_(-127, 127).to(at::kChar), scales};
}

at::Tensor from_int8(const Int8Rows& rows, at::ScalarType dtype) {
  // Where a scale is not finite, neither is the row: its zeros become NaN.
  // Multiplied where the scale is exact, rounded once.
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return rows.values.to(wide).mul_(rows.scales).to(dtype);
}

}  // namespace kha
