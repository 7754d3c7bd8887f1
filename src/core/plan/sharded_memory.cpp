#include <algorithm>

#include "core/plan/model_memory.h"

namespace kha {

double ShardedMemory::peak() const {
  return state_a_device + 2 * layer + embedding + layer_gradients + activations + recomputed;
}

ShardedMemory predict_sharded_memory(const ModelConfig& c, const BatchShape& batch,
                                     int64_t devices) {
  const ModelParameters p = parameters_of(c);
  const auto n = static_cast<double>(batch.tokens());
  constexpr double half = 2, single = 4, state = 16;
  ShardedMemory m{.state = state * p.all()};
  m.state_a_device = m.state / static_cast<double>(devices);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const LayerParameters& layer = p.layers[static_cast<size_t>(i)];
    m.layer = std::max(m.layer, half * layer.all());
    const PartMemory attention = attention_memory(c, i, batch, layer);
    const PartMemory feed_forward = feed_forward_memory(c, i, layer);
    // The layer's worst moment is in its feed-forward, with all that its attention keeps.
    double worst = 0;
    for (const Moment& moment : feed_forward.moments) worst = std::max(worst, moment.elements);
    m.recomputed = std::max(m.recomputed, half * n * (attention.kept + worst));
  }
  m.layer_gradients = 2 * m.layer;
  m.embedding = half * p.head;
  m.activations = half * n * static_cast<double>(c.num_hidden_layers * c.hidden_size);
  m.logits = single * n * static_cast<double>(c.vocab_size);
  return m;
}

}  // namespace kha
