// How far two models are apart on a text: what fold, insertion and export prove themselves by.
#pragma once

#include <cstdint>

#include "kha/core/token_shard.h"
#include "model/model_io.h"

namespace kha {

struct LogitDifference {
  double largest = 0;          // of all logits, absolute
  double largest_logit = 0;    // the largest absolute logit, for scale
  double rounding = 0;         // the first model's own float32 error: float32 against float64
  int64_t positions = 0;
  int64_t changed_choices = 0;  // positions whose most likely token differs
};

// Both in float32 on the CPU, on at most `max_tokens` tokens in windows of `context`.
LogitDifference logit_difference(const LoadedModel& before, const LoadedModel& after,
                                 const TokenShard& text, int64_t context, int64_t max_tokens);

}  // namespace kha
