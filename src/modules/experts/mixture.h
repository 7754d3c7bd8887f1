// A mixture of experts in a feed-forward's place: router, routed experts, shared experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "modules/experts/expert_products.h"
#include "modules/experts/router.h"
#include "modules/feed_forward.h"
#include "modules/parameters.h"

namespace kha {

class Mixture {
 public:
  // Takes `prefix`gate.*, experts.* (the experts of a layer lie in one tensor a matrix) and
  // shared_experts.* ("model.layers.3.mlp.").
  Mixture(const ExpertConfig& config, const Parameters& parameters, const std::string& prefix,
          int64_t layer, std::shared_ptr<RouterRecord> record);
  // x: [B, T, d] -> [B, T, d], a fresh tensor
  at::Tensor operator()(const at::Tensor& x_BTd) const;

 private:
  Router router_;
  ExpertMatrices matrices_;
  std::optional<FeedForward> shared_;
};

}  // namespace kha
