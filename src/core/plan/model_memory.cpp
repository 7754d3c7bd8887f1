#include "core/plan/model_memory.h"

#include <string>

#include "kha/core/parameter_table.h"

namespace kha {
namespace {

void add(LayerParameters& layer, const ParameterSpec& spec) {
  const auto elements = static_cast<double>(spec.elements());
  const auto named = [&](const char* part) { return spec.name.find(part) != std::string::npos; };
  const bool norm = named("post_attention_layernorm");
  if (!named(".mlp.") && !norm) {
    layer.attention += elements;
    if (named("o_proj")) layer.output += elements;
    return;
  }
  layer.feed_forward += elements;
  if (spec.expert >= 0) layer.experts += elements;
  if (named("shared_experts")) layer.shared += elements;
  if (spec.expert < 0 && named("down_proj")) layer.down += elements;
}

}  // namespace

double ModelParameters::all() const {
  double sum = outside;
  for (const auto& layer : layers) sum += layer.all();
  return sum;
}

ModelParameters parameters_of(const ModelConfig& c, const Training& training) {
  ModelParameters p;
  p.layers.resize(static_cast<size_t>(c.num_hidden_layers));
  for (const ParameterSpec& spec : parameter_table(c)) {
    if (!spec.trained) continue;
    if (!training.trains(spec.role)) {
      p.frozen += static_cast<double>(spec.elements());
    } else if (spec.layer < 0) {
      p.outside += static_cast<double>(spec.elements());
    } else {
      add(p.layers[static_cast<size_t>(spec.layer)], spec);
    }
  }
  if (training.trains(c.tie_word_embeddings ? Role::embedding : Role::head))
    p.head = static_cast<double>(c.vocab_size * c.hidden_size);
  return p;
}

}  // namespace kha
