// Rotary position embedding, half-split layout: channel i pairs with i + D/2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kha/core/rotary_scaling.h"
#include "modules/packed_layout.h"

namespace kha {

// cos and sin of p * theta^(-2i/D), the frequencies stretched as `scaling` says, angles in float32
// (float64 for a float64 model), repeated for both halves and rounded to the model's dtype once.
class RotaryTable {
 public:
  RotaryTable(int64_t positions, int64_t head_dim, double theta, at::ScalarType dtype,
              at::Device device, const RotaryScaling& scaling = {});

  // RMSNorm over D, then the rotation: x [B, T, heads, D] at positions first .. first + T - 1,
  // weight [D]; x's shape back.
  at::Tensor norm_and_rotate(const at::Tensor& x_BTHD, const at::Tensor& weight_D, double eps,
                             int64_t first) const;
  // The rotation alone: x [B, T, heads, width of the table].
  at::Tensor rotate(const at::Tensor& x_BTHR, int64_t first) const;

  // The table of a pass over packed rows: a line for each of their B T tokens, whatever `first`
  // says. This table itself where the layout names no positions.
  RotaryTable placed(const PackedLayout& layout) const;
  int64_t positions() const { return cos_SD_.size(0); }

 private:
  bool one_a_token_ = false;  // [B T, width] instead of [S, width]
  at::Tensor cos_SD_, sin_SD_;
};

}  // namespace kha
