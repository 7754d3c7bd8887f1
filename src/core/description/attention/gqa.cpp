// Grouped-query attention: MHA and MQA are its ends.
#include "core/description/attention/declarations.h"

namespace kha {
namespace {

HeadRows query_rows(const ModelConfig& c) { return whole_heads(c.num_attention_heads, c.head_dim); }

HeadRows key_value_rows(const ModelConfig& c) {
  return whole_heads(c.num_key_value_heads, c.head_dim);
}

std::vector<AttentionTensor> tensors(const ModelConfig& c) {
  const int64_t d = c.hidden_size, q = c.num_attention_heads * c.head_dim,
                kv = c.num_key_value_heads * c.head_dim;
  std::vector<AttentionTensor> list{
      {"q_proj", q, d, true}, {"k_proj", kv, d, true}, {"v_proj", kv, d, true}};
  if (c.qk_norm) list.insert(list.end(), {{"q_norm", c.head_dim}, {"k_norm", c.head_dim}});
  list.push_back({"o_proj", d, q, c.output_bias});
  return list;
}

// K after map, norm (where there is one) and rotation; V after its map.
std::vector<CacheTensor> cache(const ModelConfig& c) {
  return {{"keys", c.num_key_value_heads, c.head_dim},
          {"values", c.num_key_value_heads, c.head_dim}};
}

// A part of each head's channels may be turned alone, as in GLM-4.5.
void check(const ModelConfig& c, const std::string& where) {
  refuse_parts(c, where, {"rope_head_dim"});
  if (c.rope_head_dim == 0) return;
  require_part(where, "rope_head_dim", c.rope_head_dim,
               c.rope_head_dim > 0 && c.rope_head_dim < c.head_dim && c.rope_head_dim % 2 == 0,
               "an even number below head_dim " + std::to_string(c.head_dim) +
                   ", or 0: all channels of a head are turned");
}

}  // namespace

// The maps act between projection and QK-norm, or RoPE where there is no norm, so every kind is
// legal anywhere and a linear one folds into the projection.
AttentionDeclaration declare_gqa() {
  return {.name = "gqa",
          .meaning = "grouped-query attention (MHA and MQA are its ends), RoPE",
          .places = {{KnockSlot::q, every_kind, "", always("q_proj"), query_rows, false},
                     {KnockSlot::k, every_kind, "", always("k_proj"), key_value_rows, false},
                     {KnockSlot::v, every_kind, "", always("v_proj"), key_value_rows, true}},
          .tensors = tensors,
          .cache = cache,
          .context_flops =
              [](const ModelConfig& c) {
                return 4.0 * static_cast<double>(c.num_attention_heads * c.head_dim);
              },
          .check = check};
}

}  // namespace kha
