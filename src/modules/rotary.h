// Rotary position embedding. half_split: channel i pairs with i + D/2; interleaved: channel 2i with
// 2i + 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "kha/core/model_config.h"
#include "kha/core/rotary_scaling.h"
#include "modules/packed_layout.h"

namespace kha {

// cos and sin of p * theta^(-2i/D), the frequencies stretched as `scaling` says of a text up to its
// original length, angles in float32 (float64 for a float64 model), repeated for both channels of a
// pair and rounded to the model's dtype once. The operator norm_rope is half-split and turns whole
// heads; the interleaved layout and heads turned in part are composed of rms_norm and torch's own
// products.
class RotaryTable {
 public:
  RotaryTable(int64_t positions, int64_t head_dim, double theta, at::ScalarType dtype,
              at::Device device, const RotaryScaling& scaling = {}, bool interleaved = false);

  // RMSNorm over D, then the rotation, of the first channels where the table is narrower: x [B, T,
  // heads, D] at positions first .. first + T - 1, weight [D]; x's shape back.
  at::Tensor norm_and_rotate(const at::Tensor& x_BTHD, const at::Tensor& weight_D, double eps,
                             int64_t first) const;
  // The rotation alone, of the first channels where x is wider than the table:
  // x [B, T, heads, D].
  at::Tensor rotate(const at::Tensor& x_BTHD, int64_t first) const;

  // The table of a pass over a text of `length` positions, where the scaling depends on it
  // (dynamic, longrope); this table itself where it does not, or up to the original length.
  RotaryTable of_length(int64_t length) const;
  // Whether keys rotated in a text of one length meet queries of the other.
  bool same_frequencies(int64_t length, int64_t other) const;

  // The table of a pass over packed rows: a line for each of their B T tokens, whatever `first`
  // says. This table itself where the layout names no positions.
  RotaryTable placed(const PackedLayout& layout) const;
  int64_t positions() const { return cos_SD_.size(0); }
  // [positions, width], for tests.
  const at::Tensor& cos() const { return cos_SD_; }
  const at::Tensor& sin() const { return sin_SD_; }

 private:
  struct Source;
  void fill(int64_t positions, int64_t length);
  int64_t width() const { return cos_SD_.size(-1); }
  at::Tensor rotate_whole(const at::Tensor& x, int64_t first) const;
  // Of [.., D], what the sines multiply: each channel's partner, its sign turned for the first.
  at::Tensor partners(const at::Tensor& x) const;

  std::shared_ptr<const Source> source_;  // what the table was computed from
  bool one_a_token_ = false;              // [B T, width] instead of [S, width]
  bool interleaved_ = false;
  at::Tensor cos_SD_, sin_SD_;
};

// The table of a model: its rotated width, base, scaling and layout.
RotaryTable rotary_table_of(const ModelConfig& config, int64_t positions, at::ScalarType dtype,
                            at::Device device);

}  // namespace kha
