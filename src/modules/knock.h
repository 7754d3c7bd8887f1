// The map of one slot in one layer, alone and behind the projection that it follows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kha/core/attention_system.h"
#include "kha/ops/knock_plan.h"
#include "modules/parameters.h"

namespace kha {

// A map (arXiv 2510.23052, eq. 5-9), shared by the heads of a layer.
class Knock {
 public:
  Knock(const Parameters& parameters, int64_t layer, KnockSlot slot, KnockKind kind);

  // x: [B, T, heads, D] -> the same shape. A head tap that is set sees both.
  at::Tensor operator()(const at::Tensor& x_BTHD) const;

  KnockKind kind() const { return kind_; }
  // Of a linear map: M of y = M x, [D, D].
  const at::Tensor& matrix() const { return first_; }

 private:
  at::Tensor map(const at::Tensor& x_BTHD) const;

  int64_t layer_;
  KnockSlot slot_;
  KnockKind kind_;
  at::Tensor first_, gate_, down_;  // linear: first_; mlp: first_ = up; gate: gate_ alone
};

// A projection to heads followed by its map.
class KnockedProjection {
 public:
  // Takes the weight of that name below self_attn (and the bias where there is one).
  KnockedProjection(const Parameters& parameters, int64_t layer, const std::string& projection,
                    KnockSlot slot, KnockKind kind, int64_t head_dim, KnockPlan plan);

  // x: [B, T, d] -> [B, T, heads, D]. A linear map is applied where the plan says.
  at::Tensor operator()(const at::Tensor& x_BTd) const;
  // The projection without its map.
  at::Tensor plain(const at::Tensor& x_BTd) const;

 private:
  at::Tensor to_heads(const at::Tensor& rows_BTr) const;

  Knock knock_;
  KnockPlan plan_;
  int64_t head_dim_;
  at::Tensor weight_, bias_;  // [heads * D, d], [heads * D] or undefined
};

// Whether a linear map is applied in the weight: as the plan says, but in front of a tap, which
// wants to see the heads before it.
bool in_weight_space(KnockPlan plan);

// The same weight with M W_h in place of each head's rows W_h: a linear map in weight space, where
// heads are a part of the rows. Differentiable; `weight`: [rows, inputs].
at::Tensor with_mapped_rows(const at::Tensor& weight, const HeadRows& heads, const at::Tensor& map);

// W_h M in place of each head's columns W_h of an output projection [d, H * D]: the same for a map
// that stands in front of it.
at::Tensor with_mapped_columns(const at::Tensor& weight, const at::Tensor& map);

}  // namespace kha
