#include "kha/core/attention_system.h"

#include <algorithm>

#include "kha/core/error.h"
#include "kha/core/model_config.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

HeadRows whole_heads(int64_t heads, int64_t width) {
  return {.heads = heads, .width = width, .stride = width};
}

HeadRows query_rows(const ModelConfig& c) { return whole_heads(c.num_attention_heads, c.head_dim); }

HeadRows key_value_rows(const ModelConfig& c) {
  return whole_heads(c.num_key_value_heads, c.head_dim);
}

std::vector<AttentionTensor> gqa_tensors(const ModelConfig& c) {
  const int64_t d = c.hidden_size, q = c.num_attention_heads * c.head_dim,
                kv = c.num_key_value_heads * c.head_dim;
  return {{"q_proj", q, d, true}, {"k_proj", kv, d, true}, {"v_proj", kv, d, true},
          {"q_norm", c.head_dim}, {"k_norm", c.head_dim},  {"o_proj", d, q, true}};
}

// MHA, GQA and MQA: the maps act between projection and QK-norm, so every kind is legal anywhere.
// The cache has K after map, norm and rotation, and V after its map.
AttentionDeclaration gqa() {
  using enum KnockKind;
  const std::vector<KnockKind> all{none, linear, mlp, gate};
  return {.name = "gqa",
          .meaning = "grouped-query attention (MHA and MQA are its ends), QK-norm per head, RoPE",
          .places = {{KnockSlot::q, all, "", "q_proj", query_rows, false},
                     {KnockSlot::k, all, "", "k_proj", key_value_rows, false},
                     {KnockSlot::v, all, "", "v_proj", key_value_rows, true}},
          .tensors = gqa_tensors,
          .cache =
              [](const ModelConfig& c) {
                return std::vector<CacheTensor>{{"keys", c.num_key_value_heads, c.head_dim},
                                                {"values", c.num_key_value_heads, c.head_dim}};
              },
          .context_flops =
              [](const ModelConfig& c) {
                return 4.0 * static_cast<double>(c.num_attention_heads * c.head_dim);
              }};
}

}  // namespace

const KnockPlace& AttentionDeclaration::place(KnockSlot slot) const {
  return *std::find_if(places.begin(), places.end(),
                       [&](const KnockPlace& place) { return place.slot == slot; });
}

int64_t AttentionDeclaration::cache_elements(const ModelConfig& config) const {
  int64_t elements = 0;
  for (const CacheTensor& tensor : cache(config)) elements += tensor.heads * tensor.width;
  return elements;
}

const std::vector<AttentionDeclaration>& attention_declarations() {
  static const std::vector<AttentionDeclaration> systems{gqa()};
  return systems;
}

const AttentionDeclaration& attention_declaration(const std::string& name,
                                                  const std::string& where) {
  std::vector<std::string> names;
  for (const auto& system : attention_declarations()) {
    if (system.name == name) return system;
    names.push_back(system.name);
  }
  std::string known;
  for (const auto& each : names) known += (known.empty() ? "" : ", ") + each;
  fail({.what = "unknown attention `" + name + "`" + did_you_mean(name, names),
        .where = where,
        .expected = "one of " + known,
        .found = name});
}

void check_legal(const AttentionDeclaration& system, const LayerKnocks& knocks,
                 const std::string& where) {
  for (const KnockPlace& place : system.places) {
    const KnockKind kind = knocks.at(place.slot);
    if (std::find(place.legal.begin(), place.legal.end(), kind) != place.legal.end()) continue;
    std::string legal;
    for (const KnockKind each : place.legal) legal += (legal.empty() ? "" : ", ") + to_string(each);
    fail({.what = "a `" + to_string(kind) + "` map may not stand on " + to_string(place.slot) +
                  " of " + system.name,
          .where = where,
          .expected = legal,
          .found = to_string(kind),
          .cause = place.reason_otherwise});
  }
}

}  // namespace kha
