// Exact accounts of a model: parameters, floating-point operations, cache.
//
// FLOPs count 2 per multiply-add; causal attention is counted exactly; of the experts those that a
// token chooses; norms, softmax and rotation are left out; training is three times the forward
// pass.
#pragma once

#include <cstdint>

#include "kha/core/model_config.h"

namespace kha {

// The router's selection biases are buffers and are not counted.
struct ParameterCount {
  int64_t total = 0;
  int64_t knock = 0;      // in the maps
  int64_t embedding = 0;  // once when tied, twice (embedding and head) when not
  int64_t experts = 0;    // in the routed experts
  // What one token is multiplied with: the routed experts that it chooses, and of the embedding
  // the output projection alone.
  int64_t active = 0;
  int64_t active_body = 0;  // the same without the output projection

  int64_t body() const { return total - embedding; }
};
ParameterCount count_parameters(const ModelConfig& config);

struct FlopCount {
  double forward = 0;  // one token, the mean over a sequence of the given length, maps included
  double knock = 0;    // the maps' part of it, as activations are mapped (weight space costs less)
  double training() const { return 3 * forward; }
};
FlopCount flops_per_token(const ModelConfig& config, int64_t sequence_length);

// One token through the attention of one layer with `positions` of it cached, its own included:
// projections once and what the system does for each position, absorbed where it is. Without maps.
double attention_decode_flops(const ModelConfig& config, int64_t positions);

// The paper's own count for one layer with H heads of width d / H (eq. 10-12), T tokens.
struct PaperFlops {
  double attention;     // 8 T d^2 + 4 T^2 d
  double feed_forward;  // 18 T d^2
  double knock;         // 6 T d^2 / n
};
PaperFlops paper_flops(double tokens, double width, double heads);

}  // namespace kha
