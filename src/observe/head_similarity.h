// How alike the heads of a layer are, before and after its maps: cosine similarity of their
// features at the same position, over a fixed stretch of text.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kha/core/batch.h"
#include "kha/core/knock_setting.h"
#include "kha/core/model_config.h"
#include "modules/parameters.h"

namespace kha {

struct HeadCosines {
  int64_t heads = 0;
  std::vector<double> mean = {};  // [heads, heads], row-major: mean cosine over the positions
  // Mean over the positions and the pairs of two different heads of |cosine|; 0 with one head.
  double similarity = 0;
  double size = 0;  // root mean square of the features
};

struct SlotSimilarity {
  int64_t layer = 0;
  KnockSlot slot = KnockSlot::v;
  std::optional<HeadCosines> before;  // of the projection's own outputs; nothing without a map
  HeadCosines after;                  // of what attention gets (for q and k ahead of the norm)
};

struct HeadSimilarity {
  int64_t positions = 0;              // counted
  std::vector<SlotSimilarity> slots;  // layer by layer: q, k, v
};

// Runs the model once over the batch, without a gradient and in the parameters' dtype; the windows'
// padding is left out. Changes nothing, draws no random number.
HeadSimilarity head_similarity(const ModelConfig& config, const Parameters& parameters,
                               const Batch& batch);

}  // namespace kha
