#include "modules/knock.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "kha/core/parameter_table.h"
#include "kha/ops/knock.h"
#include "modules/head_tap.h"

namespace kha {
namespace {

std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

}  // namespace

KnockedProjection::KnockedProjection(const Parameters& parameters, int64_t layer,
                                     const std::string& projection, KnockSlot slot, KnockKind kind,
                                     int64_t head_dim, KnockPlan plan)
    : layer_(layer), slot_(slot), kind_(kind), plan_(plan), head_dim_(head_dim) {
  const std::string prefix = attention_prefix(layer) + projection;
  weight_ = parameters.at(prefix + ".weight");
  bias_ = parameters.find(prefix + ".bias");
  if (kind == KnockKind::linear) first_ = parameters.at(knock_name(layer, slot, "weight"));
  if (kind == KnockKind::mlp) first_ = parameters.at(knock_name(layer, slot, "up.weight"));
  if (kind == KnockKind::mlp) down_ = parameters.at(knock_name(layer, slot, "down.weight"));
  if (kind == KnockKind::mlp || kind == KnockKind::gate) {
    gate_ = parameters.at(knock_name(layer, slot, "gate.weight"));
  }
}

at::Tensor KnockedProjection::operator()(const at::Tensor& x) const {
  RECORD_USER_SCOPE("kha/attention projections");
  const std::vector<int64_t> heads_shape{x.size(0), x.size(1), weight_.size(0) / head_dim_,
                                         head_dim_};
  const HeadTap* tap = current_head_tap();
  if (kind_ == KnockKind::linear && plan_ == KnockPlan::weight_space && !tap) {
    return ops::knocked_linear(x, weight_, optional_of(bias_), first_).view(heads_shape);
  }
  const at::Tensor before = at::linear(x, weight_, optional_of(bias_)).view(heads_shape);
  const at::Tensor after = knock(before);
  if (tap) (*tap)(layer_, slot_, before, after);
  return after;
}

at::Tensor KnockedProjection::knock(const at::Tensor& x) const {
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

}  // namespace kha
