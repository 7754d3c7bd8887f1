// How far two models are apart on a text: what fold, insertion and export prove themselves by.
#pragma once

#include <cstdint>

#include "kha/core/token_shard.h"
#include "model/model_io.h"

namespace kha {

struct LogitDifference {
  double largest = 0;        // of all logits, absolute, both models in float32
  double largest_exact = 0;  // the same with both in float64
  double largest_logit = 0;  // the largest absolute logit, for scale
  double rounding = 0;       // float32 against float64, the errors of the two models added
  int64_t positions = 0;
  int64_t changed_choices = 0;  // positions whose most likely token differs
};

// What still counts as equal: twice `rounding`, for the weights of one of them were rounded once
// more than those of the other; where weights are stored narrower than float32, by so much more.
double rounding_limit(const LogitDifference& difference, const ModelConfig& after);

// On the CPU, on at most `max_tokens` tokens in windows of `context`.
LogitDifference logit_difference(const LoadedModel& before, const LoadedModel& after,
                                 const TokenShard& text, int64_t context, int64_t max_tokens);

}  // namespace kha
