#include "modules/rotary.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cassert>

#include "kha/ops/layers.h"

namespace kha {

RotaryTable::RotaryTable(int64_t positions, int64_t head_dim, double theta, at::ScalarType dtype,
                         at::Device device) {
  // Angles never in a narrow type: integers above 256 alias in bfloat16.
  const auto angle_type = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto options = at::TensorOptions().dtype(angle_type);
  const at::Tensor exponent = at::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  const at::Tensor frequency = 1.0 / at::pow(theta, exponent);
  const at::Tensor angle = at::outer(at::arange(positions, options), frequency);
  const at::Tensor both = at::cat({angle, angle}, -1);
  cos_SD_ = both.cos().to(device, dtype);
  sin_SD_ = both.sin().to(device, dtype);
}

at::Tensor RotaryTable::norm_and_rotate(const at::Tensor& x, const at::Tensor& weight, double eps,
                                        int64_t first, const PackedLayout* layout) const {
  if (layout && layout->positions_N.defined()) {
    // One row of B T tokens, each with its own line of the table.
    const at::Tensor rotated = ops::norm_rope(x.flatten(0, 1).unsqueeze(0), weight, eps,
                                              cos_SD_.index_select(0, layout->positions_N),
                                              sin_SD_.index_select(0, layout->positions_N));
    return rotated.view(x.sizes());
  }
  const int64_t length = x.size(1);
  assert(first + length <= positions());
  return ops::norm_rope(x, weight, eps, cos_SD_.narrow(0, first, length),
                        sin_SD_.narrow(0, first, length));
}

}  // namespace kha
