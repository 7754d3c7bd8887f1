#include "train/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace kha {
namespace {

// One- and two-dimensional practice: matrices decay, norms and biases do not.
double default_decay(Role role, const OptimizerOptions& options, KnockDecay knock) {
  if (role == Role::norm || role == Role::bias) return 0;
  if (role == Role::knock && knock == KnockDecay::none) return 0;
  return options.weight_decay;
}

GroupSummary describe(Role role, const OptimizerOptions& options, KnockDecay knock) {
  const GroupOptions& own = options.groups[static_cast<size_t>(role)];
  GroupSummary summary{.name = to_string(role), .lr_scale = own.lr_scale, .frozen = own.freeze};
  summary.weight_decay =
      own.weight_decay >= 0 ? own.weight_decay : default_decay(role, options, knock);
  const bool identity = role == Role::knock && knock == KnockDecay::to_identity;
  summary.decays_to = summary.weight_decay == 0 ? "nothing" : identity ? "identity" : "zero";
  return summary;
}

// What a map's matrix is while the map is the identity.
at::Tensor identity_value(const ParameterSpec& spec) {
  return spec.name.ends_with("gate.weight") ? at::zeros(spec.shape) : at::eye(spec.shape[0]);
}

Moments fresh_moments(const at::Tensor& parameter) {
  return {at::zeros_like(parameter), at::zeros_like(parameter),
          at::zeros({}, parameter.options().dtype(at::kFloat))};
}

}  // namespace

KnockDecay resolve_knock_decay(const RunConfig& config) {
  const std::string& name = config.optimizer.knock_decay;
  if (name == "none") return KnockDecay::none;
  if (name == "to_identity") return KnockDecay::to_identity;
  if (name == "paper") return KnockDecay::paper;
  return config.init.from.empty() ? KnockDecay::paper : KnockDecay::to_identity;
}

std::string to_string(KnockDecay decay) {
  return decay == KnockDecay::paper ? "paper" : decay == KnockDecay::none ? "none" : "to_identity";
}

Optimizer::Optimizer(const RunConfig& config, const std::vector<ParameterSpec>& table,
                     const Parameters& parameters)
    : options_(config.optimizer) {
  const KnockDecay knock = resolve_knock_decay(config);
  for (const Role role : all_roles) {
    groups_.push_back({.summary = describe(role, options_, knock)});
  }
  for (const auto& spec : table) {
    if (!spec.trained) continue;
    Group& group = groups_[static_cast<size_t>(spec.role)];
    at::Tensor parameter = parameters.at(spec.name);
    group.summary.tensors += 1;
    group.summary.parameters += spec.elements();
    parameter.requires_grad_(!group.summary.frozen);
    if (group.summary.frozen) continue;
    const Moments moments = fresh_moments(parameter);
    group.parameters.push_back(parameter);
    group.moments.push_back(moments);
    if (group.summary.decays_to == "identity") {
      group.targets.push_back(identity_value(spec).to(parameter.device()));
    }
    moments_.emplace(spec.name, moments);
    trainable_.emplace_back(spec.name, parameter);
  }
}

std::vector<GroupSummary> Optimizer::groups() const {
  std::vector<GroupSummary> summaries;
  for (const auto& group : groups_) {
    if (group.summary.tensors > 0) summaries.push_back(group.summary);
  }
  return summaries;
}

void Optimizer::set(const std::string& name, const Moments& moments) {
  const Moments& own = moments_.at(name);
  own.mean.copy_(moments.mean);
  own.square.copy_(moments.square);
  own.steps.copy_(moments.steps);
}

void Optimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    if (!group.parameters.empty()) update(group, lr * group.summary.lr_scale);
  }
}

void Optimizer::drop_gradients() {
  for (auto& [name, parameter] : trainable_) parameter.mutable_grad() = at::Tensor();
}

void Optimizer::update(Group& group, double lr) {
  std::vector<at::Tensor> gradients, means, squares, steps;
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    gradients.push_back(group.parameters[i].grad());
    means.push_back(group.moments[i].mean);
    squares.push_back(group.moments[i].square);
    steps.push_back(group.moments[i].steps);
  }
  double decay = group.summary.weight_decay;
  if (group.summary.decays_to == "identity") {
    // U, W and T decay to I, G to 0: each to the value it starts from as the identity map.
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      group.parameters[i].lerp_(group.targets[i], lr * decay);
    }
    decay = 0;
  }
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(group.parameters, gradients, means, squares, {}, steps, lr, options_.beta1,
                    options_.beta2, decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
  for (at::Tensor& parameter : group.parameters) parameter.mutable_grad() = at::Tensor();
}

}  // namespace kha
