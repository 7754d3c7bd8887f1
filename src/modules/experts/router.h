// Which experts a token passes, and with which weights.
//
// scores: s = sigmoid(z) or softmax(z), z = x W^T in float32 (float64 for float64). Chosen are the
// k largest of s + b, where the bias b (sigmoid alone) is moved by balancing and by no gradient.
// Of several groups (DeepSeek, arXiv 2412.19437, section 2.1.2) only the experts of the best are
// open to a token. Weights: s of the chosen, divided by their sum where they are normalised, times
// the scaling.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kha/core/expert_config.h"
#include "modules/experts/router_record.h"
#include "modules/parameters.h"

namespace kha {

struct Routing {
  at::Tensor chosen_Nk;   // int64, the best first
  at::Tensor weights_Nk;  // float32 (float64 for float64), differentiable
};

// -inf outside a token's best groups: of softmax scores the largest counts, else the sum of two.
// scores: [N, E] -> [N, E].
at::Tensor within_groups(const at::Tensor& scores, const ExpertConfig& experts);

class Router {
 public:
  // Takes `prefix`gate.weight and, of a sigmoid router, gate.e_score_correction_bias
  // ("model.layers.3.mlp."). A record takes the counts of `layer`; null: nobody asks.
  Router(const ExpertConfig& config, const Parameters& parameters, const std::string& prefix,
         int64_t layer, std::shared_ptr<RouterRecord> record);

  Routing operator()(const at::Tensor& x_Nd) const;

 private:
  ExpertConfig config_;
  at::Tensor weight_Ed_, bias_E_;
  int64_t layer_;
  std::shared_ptr<RouterRecord> record_;
};

}  // namespace kha
