// What one layer has in tensors while it is trained, in numbers a token.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/gradient_reach.h"
#include "kha/core/memory_plan.h"

namespace kha {

// While the backward pass goes through a part of a layer.
struct Moment {
  double elements = 0;   // a token, of this part: what it still keeps, and what lives for a moment
  double gradients = 0;  // of this part's parameters, that are there by then
  double fresh = 0;      // of them just made: with micro-batches they stand beside their sum
  double formed = 0;     // numbers of weights that are made for this moment alone
};

// Attention with its norm, or the feed-forward with its.
struct PartMemory {
  double kept = 0;  // elements a token that the operators keep for their backward pass
  std::vector<Moment> moments = {};
  double parameters = 0;
  double formed = 0;   // numbers of weights that maps form anew, kept for the pass
  double passing = 0;  // elements a token on the way forward, where nothing is kept
};

// Parameters of a layer by what they do.
struct LayerParameters {
  double attention = 0, output = 0;  // all of the attention; its o_proj alone
  double feed_forward = 0;
  double down = 0;     // of a dense feed-forward's, or the shared experts', last product
  double shared = 0;   // of the shared experts
  double experts = 0;  // of the routed ones
  double all() const { return attention + feed_forward; }
};

// Whether linear maps go into the weights, as a run with this micro-batch does it.
bool maps_in_weights(const ModelConfig& config, const BatchShape& batch);

PartMemory attention_memory(const ModelConfig& config, int64_t layer, const BatchShape& batch,
                            const LayerParameters& parameters, const LayerReach& reach = {});
PartMemory feed_forward_memory(const ModelConfig& config, int64_t layer,
                               const LayerParameters& parameters, const LayerReach& reach = {});

}  // namespace kha
