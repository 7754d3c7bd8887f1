#include "core/plan/gradient_reach.h"

#include "kha/core/attention_system.h"

namespace kha {

std::vector<LayerReach> gradient_reach(const ModelConfig& c, const Training& training) {
  std::vector<LayerReach> layers;
  bool below = training.trains(Role::embedding);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    LayerReach layer{.input = below, .training = training};
    layer.biases = c.attention_bias && training.trains(Role::bias);
    for (const KnockPlace& place : attention_declaration(c.attention, "").places) {
      if (!training.trains(Role::knock) || c.knocks.at(i).at(place.slot) == KnockKind::none)
        continue;
      if (place.linear_into == FoldHome::output) {
        layer.output_map = true;
      } else {
        layer.maps.insert(place.linear_into == FoldHome::queries ? KnockSlot::q : place.slot);
      }
    }
    below = layer.fed_forward(c.experts.in_layer(i));
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace kha
