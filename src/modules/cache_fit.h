// Does a cache belong to the model and the batch that want to use it?
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/core/model_config.h"
#include "modules/kv_cache.h"

namespace kha {

// Fails where `added` positions of a batch cannot stand behind those of the cache: another model
// (attention, sizes, layers, maps or folded maps, rotary embedding), batch, dtype, device, or no
// room. `hidden` is what the decoder computes on, [B, T, d].
void require_fit(const KvCache& cache, const ModelConfig& config, const at::Tensor& hidden_BTd);

}  // namespace kha
