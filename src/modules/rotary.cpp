#include "modules/rotary.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cassert>

#include "kha/ops/layers.h"

namespace kha {

struct RotaryTable::Source {
  int64_t width = 0;
  double theta = 0;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  RotaryScaling scaling = {};
  // longrope has one other set of frequencies; those of dynamic differ from length to length.
  std::shared_ptr<const RotaryTable> longer = {};

  bool stretched(int64_t length) const {
    return scaling.depends_on_length() && length > scaling.original_max_position_embeddings;
  }
};

RotaryTable::RotaryTable(int64_t positions, int64_t head_dim, double theta, at::ScalarType dtype,
                         at::Device device, const RotaryScaling& scaling, bool interleaved)
    : interleaved_(interleaved) {
  Source source{
      .width = head_dim, .theta = theta, .dtype = dtype, .device = device, .scaling = scaling};
  source_ = std::make_shared<const Source>(source);
  fill(positions, 0);
  if (scaling.kind != "longrope" || !source.stretched(positions)) return;
  RotaryTable longer = *this;
  longer.fill(positions, positions);
  source.longer = std::make_shared<const RotaryTable>(std::move(longer));
  source_ = std::make_shared<const Source>(std::move(source));
}

void RotaryTable::fill(int64_t positions, int64_t length) {
  const auto& [width, theta, dtype, device, scaling, longer] = *source_;
  // Angles never in a narrow type: integers above 256 alias in bfloat16.
  const auto options = at::TensorOptions().dtype(dtype == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor exponent = at::arange(0, width, 2, options) / static_cast<double>(width);
  at::Tensor frequency = 1.0 / at::pow(theta, exponent);
  const std::vector<double> stretch = frequency_multipliers(scaling, theta, width, length);
  if (!stretch.empty()) frequency = frequency * at::tensor(stretch, options);
  const at::Tensor angle = at::outer(at::arange(positions, options), frequency);
  const at::Tensor both =
      interleaved_ ? at::repeat_interleave(angle, 2, -1) : at::cat({angle, angle}, -1);
  const double amplitude = rotary_amplitude(scaling);
  cos_SD_ = (both.cos() * amplitude).to(device, dtype);
  sin_SD_ = (both.sin() * amplitude).to(device, dtype);
}

RotaryTable RotaryTable::of_length(int64_t length) const {
  if (!source_->stretched(length)) return *this;
  if (source_->longer) return *source_->longer;
  RotaryTable table = *this;
  table.fill(std::max(length, positions()), length);
  return table;
}

bool RotaryTable::same_frequencies(int64_t length, int64_t other) const {
  if (length == other || (!source_->stretched(length) && !source_->stretched(other))) return true;
  return source_->scaling.kind == "longrope" &&
         source_->stretched(length) == source_->stretched(other);
}

RotaryTable RotaryTable::placed(const PackedLayout& layout) const {
  RotaryTable table = *this;
  if (!layout.positions_N.defined()) return table;
  table.cos_SD_ = cos_SD_.index_select(0, layout.positions_N);
  table.sin_SD_ = sin_SD_.index_select(0, layout.positions_N);
  table.one_a_token_ = true;
  return table;
}

at::Tensor RotaryTable::norm_and_rotate(const at::Tensor& x, const at::Tensor& weight, double eps,
                                        int64_t first) const {
  if (interleaved_ || x.size(-1) > width()) return rotate(ops::rms_norm(x, weight, eps), first);
  if (one_a_token_) {
    // One row of B T tokens.
    return ops::norm_rope(x.flatten(0, 1).unsqueeze(0), weight, eps, cos_SD_, sin_SD_)
        .view(x.sizes());
  }
  const int64_t length = x.size(1);
  assert(first + length <= positions());
  return ops::norm_rope(x, weight, eps, cos_SD_.narrow(0, first, length),
                        sin_SD_.narrow(0, first, length));
}

at::Tensor RotaryTable::partners(const at::Tensor& x) const {
  if (interleaved_) {
    const at::Tensor pairs = x.unflatten(-1, {x.size(-1) / 2, 2});
    return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).view(x.sizes());
  }
  const int64_t half = x.size(-1) / 2;
  return at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
}

at::Tensor RotaryTable::rotate(const at::Tensor& x, int64_t first) const {
  const int64_t rest = x.size(-1) - width();
  if (rest == 0) return rotate_whole(x, first);
  return at::cat({rotate_whole(x.narrow(-1, 0, width()), first), x.narrow(-1, width(), rest)}, -1);
}

at::Tensor RotaryTable::rotate_whole(const at::Tensor& x, int64_t first) const {
  assert(one_a_token_ || first + x.size(1) <= positions());
  const at::Tensor tokens = one_a_token_ ? x.flatten(0, 1) : x;
  // [.., 1, R]: one line for all heads.
  const auto lines = [&](const at::Tensor& table) {
    return (one_a_token_ ? table : table.narrow(0, first, x.size(1))).unsqueeze(1);
  };
  const at::Tensor turned = tokens * lines(cos_SD_) + partners(tokens) * lines(sin_SD_);
  return turned.view(x.sizes());
}

RotaryTable rotary_table_of(const ModelConfig& c, int64_t positions, at::ScalarType dtype,
                            at::Device device) {
  return {positions,
          c.rotary_width(),
          c.rope_theta,
          dtype,
          device,
          c.rotary_scaling,
          c.rotary_layout == "interleaved"};
}

}  // namespace kha
