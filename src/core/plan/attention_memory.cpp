// Counted from the code of each system (src/modules/attention): what its operators save.
#include <algorithm>

#include "core/plan/layer_memory.h"
#include "core/plan/unkept_memory.h"
#include "kha/core/attention_system.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

// Widths of one token's heads together.
struct Widths {
  explicit Widths(const ModelConfig& c, int64_t context)
      : model(static_cast<double>(c.hidden_size)),
        heads(static_cast<double>(c.num_attention_heads)),
        queries(heads * static_cast<double>(c.head_dim)),
        keys(static_cast<double>(c.num_key_value_heads * c.head_dim)),
        values(static_cast<double>(c.num_key_value_heads * c.value_width())),
        output(heads * static_cast<double>(c.value_width())),
        scores(heads * static_cast<double>(context)) {}

  double model, heads, queries, keys, values, output, scores;
};

bool is_mapped(const ModelConfig& c, int64_t layer, KnockSlot slot) {
  return !knock_tensors(c.knocks.at(layer).at(slot)).empty();
}

// Inputs of the maps that work on activations; a linear one may be in its weights instead.
double map_inputs(const ModelConfig& c, int64_t layer, bool in_weights) {
  double elements = 0;
  for (const KnockPlace& place : attention_declaration(c.attention, "").places) {
    const KnockKind kind = c.knocks.at(layer).at(place.slot);
    const HeadRows rows = place.rows(c);
    if (kind == KnockKind::none || (kind == KnockKind::linear && in_weights)) continue;
    elements += static_cast<double>(rows.heads * rows.width);
  }
  return elements;
}

// Fused attention: queries and keys before and behind norm and rotation, values, the output and a
// number a head. Its backward pass has the gradients of all of them at once.
PartMemory grouped(const Widths& w) {
  return {.kept = 2 * w.queries + 2 * w.keys + w.values + w.output + w.heads,
          .moments = {{.elements = w.output + w.queries + w.keys + w.values}}};
}

// The state serves as value and, with a norm, as half of the key; one rotated key for all heads.
PartMemory tied(const ModelConfig& c, const Widths& w) {
  const auto rotated = static_cast<double>(c.rope_head_dim);
  return {.kept = 2 * w.queries + w.keys + w.values + rotated + w.output + w.heads,
          .moments = {{.elements = w.output + w.queries + w.keys + w.values}}};
}

// Keys and values are formed of every head; the values stay a part of what was formed.
PartMemory latent(const ModelConfig& c, int64_t layer, const Widths& w, bool in_weights) {
  const double wide = w.heads * static_cast<double>(c.head_dim + c.rope_head_dim);
  const double formed = w.queries + w.output;
  const auto latents = static_cast<double>(c.latent_heads * c.kv_latent);
  PartMemory part{.kept = 2 * latents + static_cast<double>(c.rope_head_dim) +
                          2 * static_cast<double>(c.query_latent) + 2 * wide + formed + w.output +
                          w.heads,
                  .moments = {{.elements = 2 * w.output + 2 * wide}}};
  const bool q = is_mapped(c, layer, KnockSlot::q), k = is_mapped(c, layer, KnockSlot::k),
             v = is_mapped(c, layer, KnockSlot::v);
  if (!in_weights) {
    // The input of a key's or a value's map is a part of what was formed.
    part.kept += (q ? wide : 0) + (v ? w.output : 0);
    return part;
  }
  const auto from = static_cast<double>(c.query_latent > 0 ? c.query_latent : c.hidden_size);
  const auto pair = formed * static_cast<double>(c.kv_latent);
  part.formed = (q ? wide * from : 0) + (k ? pair : 0) + (v ? pair : 0);
  return part;
}

// Scores before the first mixing, weights before the second, and mixed ones; their gradient comes
// on top.
PartMemory talking(const Widths& w) {
  return {.kept = 2 * w.queries + 2 * w.keys + w.values + w.output + 3 * w.scores,
          .moments = {{.elements = w.output + w.scores}}};
}

// Queries before the heads weigh them and behind the rotation, one key; the weights, and two
// gradients of their size.
PartMemory collaborative(const ModelConfig& c, const Widths& w) {
  const auto shared = static_cast<double>(c.shared_key_width);
  return {.kept = 2 * shared + w.heads * shared + w.values + w.output + w.scores,
          .moments = {{.elements = w.output + 2 * w.scores}}};
}

// Of documents each for itself the fused kernel keeps its outputs, and what goes on is one tensor
// of them all; the other systems keep no output.
double put_together(const ModelConfig& c, const Widths& w) {
  return attention_declaration(c.attention, "").forms_scores ? 0 : w.output;
}

PartMemory of_system(const ModelConfig& c, int64_t layer, const Widths& w, bool in_weights) {
  const auto& system = attention_declaration(c.attention, "");
  if (system.absorbed_context_flops) return latent(c, layer, w, in_weights);
  PartMemory part = c.attention == "talking"         ? talking(w)
                    : c.attention == "collaborative" ? collaborative(c, w)
                    : c.attention.starts_with("gta") ? tied(c, w)
                                                     : grouped(w);
  part.kept += map_inputs(c, layer, in_weights);
  return part;
}

// A map in the weights of a frozen projection makes its gradient on the way to its own: that of the
// weight that was mapped, and from it that of the weight.
double unwanted_gradient(const ModelConfig& c, int64_t layer, bool in_weights,
                         const LayerReach& reach) {
  const auto& system = attention_declaration(c.attention, "");
  if (!in_weights || reach.trains(Role::matrix) || system.absorbed_context_flops) return 0;
  double most = 0;
  for (const KnockPlace& place : system.places) {
    const HeadRows rows = place.rows(c);
    if (c.knocks.at(layer).at(place.slot) == KnockKind::linear)
      most = std::max(most, static_cast<double>(rows.heads * rows.width * c.hidden_size));
  }
  return 2 * most;
}

}  // namespace

bool maps_in_weights(const ModelConfig& config, const BatchShape& batch) {
  return batch.maps_in_weights.value_or(batch.tokens() > config.hidden_size);
}

PartMemory attention_memory(const ModelConfig& c, int64_t layer, const BatchShape& batch,
                            const LayerParameters& parameters, const LayerReach& reach) {
  if (!reach.attended()) return {};
  const Widths w(c, batch.context);
  const bool in_weights = maps_in_weights(c, batch);
  PartMemory part = of_system(c, layer, w, in_weights);
  part.parameters = parameters.attention;
  // The norm's input and output, and the gradient of the residual stream.
  const bool kept_together = reach.trains(Role::matrix) || reach.output_map;
  part.kept += 2 * w.model + (batch.document_mask && kept_together ? put_together(c, w) : 0);
  part.kept -= unkept_by_attention(c, layer, batch.context, in_weights, reach);
  if (!reach.attention_rows()) part.formed = 0;  // of use to the gradient of what is below alone
  for (Moment& moment : part.moments) {
    moment.elements += part.kept + w.model;
    moment.gradients = moment.fresh = parameters.output;
  }
  // At the projections: their gradients, and two more of the model's width.
  part.moments.push_back({.elements = 2 * w.model + w.queries + w.keys + w.values + 3 * w.model,
                          .gradients = parameters.attention,
                          .fresh = parameters.output,
                          .formed = unwanted_gradient(c, layer, in_weights, reach)});
  return part;
}

}  // namespace kha
