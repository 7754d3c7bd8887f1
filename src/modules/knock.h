// One map of one slot in one layer, behind the projection that it follows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kha/core/knock_setting.h"
#include "kha/ops/knock_plan.h"
#include "modules/parameters.h"

namespace kha {

// A projection to heads followed by its map (arXiv 2510.23052, eq. 5-9).
class KnockedProjection {
 public:
  // Takes `prefix`NAME.weight (and .bias where there is one) and the map's matrices.
  KnockedProjection(const Parameters& parameters, int64_t layer, const std::string& projection,
                    KnockSlot slot, KnockKind kind, int64_t head_dim, KnockPlan plan);

  // x: [B, T, d] -> [B, T, heads, D]. A linear map is applied where the plan says. A HeadTap sees
  // the features.
  at::Tensor operator()(const at::Tensor& x_BTd) const;

 private:
  at::Tensor knock(const at::Tensor& x_BTHD) const;

  int64_t layer_;
  KnockSlot slot_;
  KnockKind kind_;
  KnockPlan plan_;
  int64_t head_dim_;
  at::Tensor weight_, bias_;        // [heads * D, d], [heads * D] or undefined
  at::Tensor first_, gate_, down_;  // linear: first_; mlp: first_ = up; gate: gate_ alone
};

}  // namespace kha
