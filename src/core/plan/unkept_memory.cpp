// Counted from src/modules/attention as attention_memory is: a product keeps its left side for the
// gradient of its right side alone, kha's own operators and the fused kernel keep all or nothing.
#include "core/plan/unkept_memory.h"

#include "kha/core/attention_system.h"

namespace kha {
namespace {

struct Place {
  const ModelConfig& config;
  int64_t layer;
  int64_t context;
  bool in_weights;
  const LayerReach& reach;

  KnockKind kind(KnockSlot slot) const { return config.knocks.at(layer).at(slot); }
  bool any(KnockSlot slot) const { return kind(slot) != KnockKind::none; }
  bool weight_mapped(KnockSlot slot) const { return in_weights && kind(slot) == KnockKind::linear; }
  bool matrices() const { return reach.trains(Role::matrix); }
  bool latent() const {
    return attention_declaration(config.attention, "").absorbed_context_flops != nullptr;
  }
  bool tied() const { return config.attention.starts_with("gta"); }
  double heads() const { return static_cast<double>(config.num_attention_heads); }
  double queries() const { return heads() * static_cast<double>(config.head_dim); }
  double output() const { return heads() * static_cast<double>(config.value_width()); }
  double scores() const { return heads() * static_cast<double>(context); }
};

// The norm's output goes into the projections. One with a linear map in its weights keeps it in any
// case; latent attention keeps it where the mapped weight is one of the layer's input.
bool keeps_rows(const Place& p) {
  if (p.matrices()) return true;
  const auto operates = [&](KnockSlot slot) { return p.weight_mapped(slot) && p.reach.slot(slot); };
  if (p.latent())
    return p.config.query_latent == 0 && p.weight_mapped(KnockSlot::q) &&
           p.reach.maps.contains(KnockSlot::q);
  for (const KnockPlace& place : attention_declaration(p.config.attention, "").places) {
    if (place.linear_into != FoldHome::output && operates(place.slot)) return true;
  }
  return false;
}

// Inputs of maps on activations; one in front of the output's projection has the heads' output as
// its input, and what it gives is kept by that projection.
double unkept_map_inputs(const Place& p) {
  double elements = 0;
  for (const KnockPlace& place : attention_declaration(p.config.attention, "").places) {
    if (!p.any(place.slot) || p.weight_mapped(place.slot)) continue;
    const HeadRows rows = place.rows(p.config);
    const bool kept =
        place.linear_into == FoldHome::output ? p.matrices() : p.reach.slot(place.slot);
    if (!kept) elements += static_cast<double>(rows.heads * rows.width);
  }
  return elements;
}

// Queries and keys before their norms.
double unkept_by_grouped(const Place& p) {
  const auto keys = static_cast<double>(p.config.num_key_value_heads * p.config.head_dim);
  return (p.reach.slot(KnockSlot::q) ? 0 : p.queries()) + (p.reach.slot(KnockSlot::k) ? 0 : keys);
}

// Queries and the rotated key before their norms; all but the output where it alone is mapped.
double unkept_by_tied(const Place& p) {
  if (!p.reach.any_slot()) {
    const auto keys = static_cast<double>(p.config.num_key_value_heads * p.config.head_dim);
    return 2 * p.queries() + 2 * keys + static_cast<double>(p.config.rope_head_dim) + p.heads();
  }
  const bool rotated = p.reach.attention_rows() || p.matrices();
  return (p.reach.slot(KnockSlot::q) ? 0 : p.queries()) +
         (rotated ? 0 : static_cast<double>(p.config.rope_head_dim));
}

// Latents before their norms, and behind them for the gradient of what forms heads of them.
double unkept_by_latent(const Place& p) {
  const auto latents = static_cast<double>(p.config.latent_heads * p.config.kv_latent);
  const auto query = static_cast<double>(p.config.query_latent);
  const auto formed = [&](KnockSlot slot) {
    return p.matrices() || (p.weight_mapped(slot) && p.reach.maps.contains(slot));
  };
  double elements = 0;
  if (!p.reach.attention_rows() && !p.matrices() && !p.reach.biases)
    elements += latents + static_cast<double>(p.config.rope_head_dim) + query;
  if (!formed(KnockSlot::q)) elements += query;
  if (!formed(KnockSlot::k) && !formed(KnockSlot::v)) elements += latents;
  return elements;
}

// No fused kernel: the heads' output is kept by its projection, the scores by their mixing, queries
// and keys for each other, and the values' weights with them.
double unkept_by_talking(const Place& p) {
  if (p.matrices()) return 0;
  double elements = p.output() + p.scores();
  if (p.reach.slot(KnockSlot::q) || p.reach.slot(KnockSlot::k))
    return elements + unkept_by_grouped(p) + (p.reach.slot(KnockSlot::v) ? 0 : p.scores());
  const auto keys = static_cast<double>(p.config.num_key_value_heads * p.config.head_dim);
  const auto values = static_cast<double>(p.config.num_key_value_heads * p.config.value_width());
  return elements + 2 * p.queries() + 2 * keys + values + p.scores();
}

double unkept_by_collaborative(const Place& p) {
  if (p.matrices()) return 0;
  const auto shared = static_cast<double>(p.config.shared_key_width);
  const auto values = static_cast<double>(p.config.num_key_value_heads * p.config.value_width());
  if (p.reach.attention_rows()) return p.output() + shared;
  return p.output() + 2 * shared + p.heads() * shared + values;
}

double unkept_by_system(const Place& p) {
  if (p.latent()) return unkept_by_latent(p);
  if (p.config.attention == "talking") return unkept_by_talking(p);
  if (p.config.attention == "collaborative") return unkept_by_collaborative(p);
  return p.tied() ? unkept_by_tied(p) : unkept_by_grouped(p);
}

}  // namespace

double unkept_by_attention(const ModelConfig& config, int64_t layer, int64_t context,
                           bool in_weights, const LayerReach& reach) {
  const Place p{config, layer, context, in_weights, reach};
  const auto model = static_cast<double>(config.hidden_size);
  // A latent map's input is a part of what its projection gives, which is counted there.
  return unkept_by_system(p) + (p.latent() ? 0 : unkept_map_inputs(p)) +
         (reach.attention_rows() ? 0 : model) + (keeps_rows(p) ? 0 : model);
}

}  // namespace kha
