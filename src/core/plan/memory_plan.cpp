#include "kha/core/memory_plan.h"

#include <algorithm>
#include <vector>

#include "kha/core/attention_system.h"
#include "kha/core/parameter_table.h"
#include "kha/kernels/head_loss_chunk.h"

namespace kha {
namespace {

constexpr double bytes = 4;  // float32

// Elements a token that one layer keeps for its backward pass, and those that live for a moment.
struct LayerElements {
  double attention = 0;     // kept: norm's input and output, heads before and after norm and map
  double feed_forward = 0;  // kept: norm's input and output
  double inner = 0;         // kept: gate and up, freed first
  double width = 0;         // d
  double gated = 0;         // of one inner tensor, all experts of a token together
  double kept() const { return attention + feed_forward + inner; }
};

double map_inputs(const ModelConfig& c, int64_t layer) {
  double elements = 0;
  for (const KnockPlace& place : attention_declaration(c.attention, "").places) {
    const bool mapped = !knock_tensors(c.knocks.at(layer).at(place.slot)).empty();
    // A query's or key's norm keeps the map's result beside its input.
    const HeadRows rows = place.rows(c);
    if (mapped) elements += static_cast<double>(rows.heads * rows.width);
  }
  return elements;
}

// Every projection's output once for what follows it, and once more where a norm and the rotation
// stand between it and the attention; the attention's output and a number a head.
double head_elements(const ModelConfig& c) {
  const double queries = static_cast<double>(c.num_attention_heads * c.head_dim);
  const double values = static_cast<double>(c.num_attention_heads * c.value_width());
  const double cached =
      static_cast<double>(attention_declaration(c.attention, "").cache_elements(c));
  const double keys = static_cast<double>(c.num_key_value_heads * c.head_dim);
  return 2 * queries + keys + cached + values + static_cast<double>(c.num_attention_heads);
}

// Logits, weights and their mixture, of every head and visible position (docs/attention.md): what
// systems without a fused attention keep of one token, besides its heads.
double score_elements(const ModelConfig& c, int64_t context) {
  const double tensors = c.attention == "talking" ? 3 : c.attention == "collaborative" ? 2 : 0;
  return tensors * static_cast<double>(c.num_attention_heads * context);
}

LayerElements elements_of(const ModelConfig& c, int64_t layer, int64_t context) {
  const auto d = static_cast<double>(c.hidden_size);
  const ExpertConfig& e = c.experts;
  LayerElements elements{
      .attention = 2 * d + head_elements(c) + map_inputs(c, layer) + score_elements(c, context),
      .feed_forward = 2 * d,
      .width = d};
  if (e.in_layer(layer)) {
    elements.gated = static_cast<double>((e.active + e.shared) * e.width);
    // Each token once for every expert that it chose, and their results.
    elements.feed_forward += 2 * static_cast<double>(e.active) * d + static_cast<double>(e.count);
  } else {
    elements.gated = static_cast<double>(c.intermediate_size);
  }
  elements.inner = 2 * elements.gated;
  return elements;
}

// Parameters by layer: attention with its norm, feed-forward with its; what lies outside.
struct LayerParameters {
  double attention = 0, feed_forward = 0;
  double down = 0;  // of the feed-forward's last product
  double all() const { return attention + feed_forward; }
};

struct ModelParameters {
  std::vector<LayerParameters> layers;
  double outside = 0, head = 0;
  double all() const {
    double sum = outside;
    for (const auto& layer : layers) sum += layer.all();
    return sum;
  }
};

ModelParameters parameters_of(const ModelConfig& c) {
  ModelParameters p;
  p.layers.resize(static_cast<size_t>(c.num_hidden_layers));
  for (const ParameterSpec& spec : parameter_table(c)) {
    if (!spec.trained) continue;
    const auto elements = static_cast<double>(spec.elements());
    if (spec.layer < 0) {
      p.outside += elements;
      continue;
    }
    LayerParameters& layer = p.layers[static_cast<size_t>(spec.layer)];
    const bool feed_forward = spec.name.find(".mlp.") != std::string::npos;
    (feed_forward ? layer.feed_forward : layer.attention) += elements;
    if (feed_forward && spec.name.find("down_proj") != std::string::npos) layer.down += elements;
  }
  p.head = static_cast<double>(c.vocab_size * c.hidden_size);
  return p;
}

// What stands while the backward pass goes through the layers: gradients of `above` are there.
struct Moment {
  double gradients = 0;  // parameters
  double elements = 0;   // a token
};

// The feed-forward's last product needs three inner tensors beside what the layer kept; its first
// ones two, and two of the model's width, when their weights' gradients come.
std::vector<Moment> moments_of_layer(const LayerElements& e, const LayerParameters& p,
                                     double gradients, double below) {
  const double all = below + e.kept();
  return {{gradients + p.down, all + 3 * e.gated + e.width},
          {gradients + p.feed_forward, all - e.inner + 2 * e.gated + 3 * e.width},
          {gradients + p.all(), below + e.attention + 3 * e.width}};
}

double head_moment(const ModelConfig& c, const BatchShape& batch) {
  const auto rows = static_cast<double>(std::min<int64_t>(
      head_loss_chunk_rows(batch.tokens(), c.vocab_size, c.hidden_size), batch.tokens()));
  return rows * static_cast<double>(c.vocab_size);
}

}  // namespace

StepMemory predict_step_memory(const ModelConfig& c, const BatchShape& batch) {
  const ModelParameters p = parameters_of(c);
  const auto n = static_cast<double>(batch.tokens());
  const auto d = static_cast<double>(c.hidden_size);
  // Hidden states of the head and their gradient; ids, targets, losses and scales.
  const double around = (2 * d + d + 6) * n;
  std::vector<LayerElements> layers;
  double kept = 0;  // elements a token, of all layers
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    layers.push_back(elements_of(c, layer, batch.context));
    kept += batch.recompute ? d : layers.back().kept();
  }
  const bool earlier = batch.accumulate > 1;  // gradients of earlier micro-batches
  double worst = kept * n + around + p.head + head_moment(c, batch) + (earlier ? p.all() : 0);
  double gradients = p.head, below = kept;
  for (size_t i = layers.size(); i-- > 0;) {
    below -= batch.recompute ? 0 : layers[i].kept();
    for (const Moment& m : moments_of_layer(layers[i], p.layers[i], gradients, below)) {
      const double there = earlier ? p.all() + m.gradients - gradients + p.head : m.gradients;
      // The last hidden state's gradient has become that of the layer, counted in its moment.
      worst = std::max(worst, there + m.elements * n + around - d * n);
    }
    gradients += p.layers[i].all();
    if (batch.recompute) below -= d;
  }
  return {.weights = bytes * p.all(),
          .moments = 2 * bytes * p.all(),
          .gradients = bytes * p.all(),
          .kept = bytes * kept * n,
          .peak = bytes * (3 * p.all() + worst)};
}

double ShardedMemory::peak() const {
  return state_a_device + 2 * layer + embedding + layer_gradients + activations + recomputed;
}

ShardedMemory predict_sharded_memory(const ModelConfig& c, const BatchShape& batch,
                                     int64_t devices) {
  const ModelParameters p = parameters_of(c);
  const auto n = static_cast<double>(batch.tokens());
  constexpr double half = 2, state = 16;
  ShardedMemory m{.state = state * p.all()};
  m.state_a_device = m.state / static_cast<double>(devices);
  for (size_t i = 0; i < p.layers.size(); ++i) {
    m.layer = std::max(m.layer, half * p.layers[i].all());
    const LayerElements e = elements_of(c, static_cast<int64_t>(i), batch.context);
    m.recomputed = std::max(m.recomputed, half * n * (e.kept() + e.gated));
  }
  m.layer_gradients = 2 * m.layer;
  m.embedding = half * p.head;
  m.activations = half * n * static_cast<double>(c.num_hidden_layers * c.hidden_size);
  m.logits = bytes * n * static_cast<double>(c.vocab_size);
  return m;
}

}  // namespace kha
