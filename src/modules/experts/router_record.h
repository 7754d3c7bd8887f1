// What a pass asks of its routers beside the experts, and what they tell about it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kha {

// One for a pass; a layer that runs again in the backward pass writes the same numbers again.
struct RouterRecord {
  explicit RouterRecord(int64_t layers) : share(layers), counts(layers) {}

  // The auxiliary losses' weights, each divided by the tokens of the whole step: their gradients
  // are added behind the router in the backward pass, so the pass itself returns no loss.
  double balance = 0;
  double z = 0;
  // [N] bool: false is padding, which counts nowhere; undefined: all is text.
  at::Tensor text_N;
  // Of each layer, the share of the whole step's choices that fell on each expert, [E]
  // float64; undefined: the pass is the whole step, and its own counts are meant.
  std::vector<at::Tensor> share;

  // Of each layer, how often each expert was chosen in this pass, [E] int64 on the CPU; undefined
  // for a dense layer.
  std::vector<at::Tensor> counts;
};

}  // namespace kha
