#include "modules/feed_forward.h"

#include <ATen/Functions.h>

#include "kha/ops/layers.h"

namespace kha {

FeedForward::FeedForward(const Parameters& parameters, const std::string& prefix)
    : gate_(parameters.at(prefix + "gate_proj.weight")),
      up_(parameters.at(prefix + "up_proj.weight")),
      down_(parameters.at(prefix + "down_proj.weight")) {}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  return at::linear(ops::swiglu(at::linear(x, gate_), at::linear(x, up_)), down_);
}

}  // namespace kha
