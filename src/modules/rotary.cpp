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

RotaryTable::Lines RotaryTable::lines(int64_t first, int64_t length,
                                      const PackedLayout* layout) const {
  if (layout && layout->positions_N.defined()) {
    return {cos_SD_.index_select(0, layout->positions_N),
            sin_SD_.index_select(0, layout->positions_N), true};
  }
  assert(first + length <= positions());
  return {cos_SD_.narrow(0, first, length), sin_SD_.narrow(0, first, length), false};
}

at::Tensor RotaryTable::norm_and_rotate(const at::Tensor& x, const at::Tensor& weight, double eps,
                                        int64_t first, const PackedLayout* layout) const {
  const Lines table = lines(first, x.size(1), layout);
  if (!table.one_a_token) return ops::norm_rope(x, weight, eps, table.cos, table.sin);
  // One row of B T tokens, each with its own line of the table.
  return ops::norm_rope(x.flatten(0, 1).unsqueeze(0), weight, eps, table.cos, table.sin)
      .view(x.sizes());
}

at::Tensor RotaryTable::rotate(const at::Tensor& x, int64_t first,
                               const PackedLayout* layout) const {
  const Lines table = lines(first, x.size(1), layout);
  const int64_t half = x.size(-1) / 2;
  const at::Tensor tokens = table.one_a_token ? x.flatten(0, 1) : x;
  const at::Tensor low = tokens.narrow(-1, 0, half), high = tokens.narrow(-1, half, half);
  // [T, 1, R]: one line for all heads.
  const at::Tensor turned =
      tokens * table.cos.unsqueeze(1) + at::cat({-high, low}, -1) * table.sin.unsqueeze(1);
  return turned.view(x.sizes());
}

}  // namespace kha
