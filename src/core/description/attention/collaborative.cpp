// Collaborative attention (arXiv 2006.16362): all heads share queries and keys of width D~, of
// which each head weighs the channels for itself. Values are those of MHA.
#include "core/description/attention/declarations.h"

namespace kha {
namespace {

constexpr const char* reason =
    "queries and keys of all heads are one space of shared_key_width: no head has a part of its "
    "own "
    "that a map could act on";

HeadRows shared_rows(const ModelConfig& c) { return whole_heads(1, c.shared_key_width); }

HeadRows value_rows(const ModelConfig& c) { return whole_heads(c.num_attention_heads, c.head_dim); }

// A row of `mixing` weighs the channels for one head; where they divide among the heads it starts
// as MHA, head i on the i-th stretch. The product is one multiplication an element.
std::vector<AttentionTensor> tensors(const ModelConfig& c) {
  const int64_t d = c.hidden_size, heads = c.num_attention_heads, shared = c.shared_key_width,
                v = heads * c.head_dim;
  const Init start = shared % heads == 0 ? Init::blocks : Init::mixing;
  std::vector<AttentionTensor> list{
      {"q_proj", shared, d},
      {"k_proj", shared, d},
      {.name = "mixing", .outputs = heads, .inputs = shared, .init = start, .token_flops = 1}};
  if (c.content_bias) {
    list.push_back({.name = "content_bias", .outputs = heads, .inputs = d, .init = Init::zeros});
  }
  list.push_back({"v_proj", v, d, true});
  list.push_back({"o_proj", d, v, true});
  return list;
}

// The rotated keys, one head for all; a scalar a head where keys have a term of their own; V after
// its map.
std::vector<CacheTensor> cache(const ModelConfig& c) {
  std::vector<CacheTensor> list{{"shared keys", 1, c.shared_key_width}};
  if (c.content_bias) list.push_back({"key biases", 1, c.num_attention_heads});
  list.push_back({"values", c.num_attention_heads, c.head_dim});
  return list;
}

// Every head's logit is a product over all shared channels.
double context_flops(const ModelConfig& c) {
  const int64_t logit = 2 * c.shared_key_width + (c.content_bias ? 1 : 0);
  return static_cast<double>(c.num_attention_heads * (logit + 2 * c.head_dim));
}

void check(const ModelConfig& c, const std::string& where) {
  refuse_parts(c, where, {"shared_key_width", "content_bias"});
  constexpr int64_t most = int64_t{1} << 24;
  require_part(where, "shared_key_width", c.shared_key_width,
               c.shared_key_width >= c.head_dim && c.shared_key_width <= most,
               "from head_dim " + std::to_string(c.head_dim) + " to " + std::to_string(most) +
                   ": whole blocks of head_dim channels are rotated");
  require_part(where, "num_key_value_heads", c.num_key_value_heads,
               c.num_key_value_heads == c.num_attention_heads,
               "num_attention_heads: every head has values of its own");
}

}  // namespace

AttentionDeclaration declare_collaborative() {
  return {
      .name = "collaborative",
      .meaning =
          "collaborative attention: heads weigh the channels of shared queries and keys; "
          "keeps tensors of heads x T x T a layer",
      .places = {{KnockSlot::q, {KnockKind::none}, reason, always("q_proj"), shared_rows, false},
                 {KnockSlot::k, {KnockKind::none}, reason, always("k_proj"), shared_rows, false},
                 {KnockSlot::v, every_kind, "", always("v_proj"), value_rows, true}},
      .tensors = tensors,
      .cache = cache,
      .context_flops = context_flops,
      .check = check,
      .forms_scores = true};
}

}  // namespace kha
