#include "core/exchange/linear_maps.h"

#include "core/surgery/fold_plan.h"

namespace kha {

ModelConfig without_linear_maps(ModelConfig config) {
  std::vector<LayerKnocks> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerKnocks knocks = config.knocks.at(layer);
    for (const KnockSlot slot : knock_slots) {
      if (knocks.at(slot) == KnockKind::linear) knocks.at(slot) = KnockKind::none;
    }
    layers.push_back(knocks);
  }
  config.knocks = as_model_knocks(layers);
  return config;
}

std::string name_in_config(DType dtype) {
  if (dtype == DType::f64) return "float64";
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

}  // namespace kha
