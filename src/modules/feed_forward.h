// SwiGLU feed-forward: down(silu(gate(x)) * up(x)).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "modules/parameters.h"

namespace kha {

class FeedForward {
 public:
  // Takes `prefix`gate_proj, up_proj, down_proj ("model.layers.3.mlp.").
  FeedForward(const Parameters& parameters, const std::string& prefix);
  // x: [B, T, d] -> [B, T, d]
  at::Tensor operator()(const at::Tensor& x_BTd) const;

 private:
  at::Tensor gate_, up_, down_;
};

}  // namespace kha
