// The parameters of a model, as the memory of a step counts them.
#pragma once

#include <vector>

#include "core/plan/layer_memory.h"

namespace kha {

struct ModelParameters {
  std::vector<LayerParameters> layers;
  double outside = 0;  // embedding, final norm, head
  double head = 0;     // the matrix of the logits, the embedding where the two are tied
  double frozen = 0;   // of the whole model; they count in nothing else
  double all() const;
};

ModelParameters parameters_of(const ModelConfig& config, const Training& training = {});

}  // namespace kha
