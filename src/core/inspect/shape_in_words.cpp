#include "core/inspect/shape_in_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kha {
namespace {

// Dimension `axis` of tensors that end in `suffix` is `unit` times the size `key`.
struct Clue {
  std::string suffix;
  size_t axis;
  std::string words;
  std::string key;
  int64_t configured;
  int64_t unit;
};

std::vector<Clue> clues(const ModelConfig& c) {
  const int64_t heads = c.num_attention_heads, kv_heads = c.num_key_value_heads, width = c.head_dim;
  const ExpertConfig& e = c.experts;
  const int64_t shared = c.shared_key_width;
  const Clue queries =
      shared > 0 ? Clue{"q_proj.weight", 0, "shared keys {} wide", "shared_key_width", shared, 1}
                 : Clue{c.query_latent > 0 ? "q_b_proj.weight" : "q_proj.weight",
                        0,
                        "{} query heads",
                        "num_attention_heads",
                        heads,
                        c.kv_latent > 0 ? width + c.rope_head_dim : width};
  std::vector<Clue> list{
      {"input_layernorm.weight", 0, "a width of {}", "hidden_size", c.hidden_size, 1},
      {"embed_tokens.weight", 0, "{} token ids", "vocab_size", c.vocab_size, 1},
      queries,
      {"k_proj.weight", 0, "{} KV heads", "num_key_value_heads", kv_heads, width},
      {"v_proj.weight", 0, "{} KV heads", "num_key_value_heads", kv_heads, width},
      {".mlp.gate_proj.weight", 0, "a feed-forward of {}", "intermediate_size", c.intermediate_size,
       1},
      {".mlp.gate.weight", 0, "{} experts",
       e.router == "softmax" ? "num_experts" : "n_routed_experts", e.count, 1},
      {".shared_experts.gate_proj.weight", 0, "{} shared experts", "n_shared_experts", e.shared,
       std::max<int64_t>(e.width, 1)},
      {".gate_proj.weight", 0, "experts of width {}", "moe_intermediate_size", e.width, 1}};
  // In tied attention the norm is of a part of the head.
  if (c.rope_head_dim == 0 || c.attention == "gqa") {
    list.insert(list.begin(), {"q_norm.weight", 0, "heads {} wide", "head_dim", width, 1});
  }
  return list;
}

bool explains(const Clue& clue, const OtherShape& shape) {
  const auto& expected = shape.expected;
  if (!expected.name.ends_with(clue.suffix) || shape.found.size() != expected.shape.size())
    return false;
  const int64_t found = shape.found[clue.axis];
  return found != expected.shape[clue.axis] && found % clue.unit == 0;
}

}  // namespace

std::optional<OtherSize> size_in_words(const std::vector<OtherShape>& shapes,
                                       const ModelConfig& config) {
  for (const Clue& clue : clues(config)) {
    for (const OtherShape& shape : shapes) {
      if (!explains(clue, shape)) continue;
      const int64_t found = shape.found[clue.axis] / clue.unit;
      return OtherSize{shape, fmt::format(fmt::runtime(clue.words), found), clue.key, found,
                       clue.configured};
    }
  }
  return std::nullopt;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace kha
