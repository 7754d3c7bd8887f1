// Where a linear map is applied in training: on the activations, or once a step on the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kha {

// activation_space: y = (x W^T) M^T, per head (kha::knock_linear after a plain projection).
// weight_space:     y = x (M W)^T (kha::knocked_linear). Same values up to rounding.
enum class KnockPlan { activation_space, weight_space };

// Pure. `tokens` is the micro-batch (batch times time), `model_width` the inputs of the projection.
// A product costs 2 N H D^2 operations on N tokens' activations and 2 d H D^2 on a weight of d
// inputs: the weight is cheaper as soon as N > d, and it keeps no activation.
constexpr KnockPlan choose_knock_plan(std::int64_t tokens, std::int64_t model_width) {
  return tokens > model_width ? KnockPlan::weight_space : KnockPlan::activation_space;
}

// "activation_space" or "weight_space": the names in configs, run records and checkpoints.
constexpr std::string_view to_string(KnockPlan plan) {
  return plan == KnockPlan::weight_space ? "weight_space" : "activation_space";
}

// The plan of that name, or nothing for any other text.
constexpr std::optional<KnockPlan> parse_knock_plan(std::string_view name) {
  for (KnockPlan plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
    if (to_string(plan) == name) return plan;
  }
  return std::nullopt;
}

}  // namespace kha
