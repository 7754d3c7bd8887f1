// What operators do not keep where parameters are frozen.
#pragma once

#include "core/plan/gradient_reach.h"

namespace kha {

// Elements a token that the attention, its norm included, keeps less than where all is trained. The
// attention is one that keeps something (reach.attended()).
double unkept_by_attention(const ModelConfig& config, int64_t layer, int64_t context,
                           bool in_weights, const LayerReach& reach);

}  // namespace kha
