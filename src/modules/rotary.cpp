#include "modules/rotary.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cassert>

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

at::Tensor RotaryTable::rotate(const at::Tensor& x, int64_t first) const {
  const int64_t length = x.size(1), half = x.size(3) / 2;
  assert(first + length <= positions());
  const at::Tensor cos = cos_SD_.narrow(0, first, length).unsqueeze(1);
  const at::Tensor sin = sin_SD_.narrow(0, first, length).unsqueeze(1);
  const at::Tensor swapped = at::cat({-x.narrow(3, half, half), x.narrow(3, 0, half)}, -1);
  return x * cos + swapped * sin;
}

}  // namespace kha
