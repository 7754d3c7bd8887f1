#include "modules/knock.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "kha/core/parameter_table.h"
#include "kha/ops/knock.h"
#include "modules/head_tap.h"
#include "modules/optional_tensor.h"

namespace kha {
Knock::Knock(const Parameters& parameters, int64_t layer, KnockSlot slot, KnockKind kind)
    : layer_(layer), slot_(slot), kind_(kind) {
  if (kind == KnockKind::linear) first_ = parameters.at(knock_name(layer, slot, "weight"));
  if (kind == KnockKind::mlp) first_ = parameters.at(knock_name(layer, slot, "up.weight"));
  if (kind == KnockKind::mlp) down_ = parameters.at(knock_name(layer, slot, "down.weight"));
  if (kind == KnockKind::mlp || kind == KnockKind::gate) {
    gate_ = parameters.at(knock_name(layer, slot, "gate.weight"));
  }
}

at::Tensor Knock::operator()(const at::Tensor& x) const {
  const at::Tensor y = map(x);
  if (const HeadTap* tap = current_head_tap()) (*tap)(layer_, slot_, x, y);
  return y;
}

at::Tensor Knock::map(const at::Tensor& x) const {
  RECORD_USER_SCOPE("kha/knock maps");
  switch (kind_) {
    case KnockKind::none:
      return x;
    case KnockKind::linear:
      return ops::knock_linear(x, first_);
    case KnockKind::mlp:
      return ops::knock_mlp(x, first_, gate_, down_);
    case KnockKind::gate:
      return ops::knock_gate(x, gate_);
  }
  return x;
}

KnockedProjection::KnockedProjection(const Parameters& parameters, int64_t layer,
                                     const std::string& projection, KnockSlot slot, KnockKind kind,
                                     int64_t head_dim, KnockPlan plan)
    : knock_(parameters, layer, slot, kind), plan_(plan), head_dim_(head_dim) {
  const std::string prefix = attention_prefix(layer) + projection;
  weight_ = parameters.at(prefix + ".weight");
  bias_ = parameters.find(prefix + ".bias");
}

at::Tensor KnockedProjection::operator()(const at::Tensor& x) const {
  RECORD_USER_SCOPE("kha/attention projections");
  if (knock_.kind() == KnockKind::linear && in_weight_space(plan_)) {
    return to_heads(ops::knocked_linear(x, weight_, optional_of(bias_), knock_.matrix()));
  }
  return knock_(to_heads(at::linear(x, weight_, optional_of(bias_))));
}

at::Tensor KnockedProjection::plain(const at::Tensor& x) const {
  RECORD_USER_SCOPE("kha/attention projections");
  return to_heads(at::linear(x, weight_, optional_of(bias_)));
}

at::Tensor KnockedProjection::to_heads(const at::Tensor& rows) const {
  return rows.view({rows.size(0), rows.size(1), rows.size(2) / head_dim_, head_dim_});
}

bool in_weight_space(KnockPlan plan) {
  return plan == KnockPlan::weight_space && !current_head_tap();
}

at::Tensor with_mapped_rows(const at::Tensor& weight, const HeadRows& heads,
                            const at::Tensor& map) {
  const at::Tensor by_head = weight.view({heads.heads, heads.stride, weight.size(1)});
  const int64_t end = heads.begin + heads.width;
  return at::cat({by_head.narrow(1, 0, heads.begin),
                  at::matmul(map, by_head.narrow(1, heads.begin, heads.width)),
                  by_head.narrow(1, end, heads.stride - end)},
                 1)
      .view(weight.sizes());
}

at::Tensor with_mapped_columns(const at::Tensor& weight, const at::Tensor& map) {
  return at::matmul(weight.view({weight.size(0), -1, map.size(0)}), map).view(weight.sizes());
}

}  // namespace kha
