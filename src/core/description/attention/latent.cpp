// Latent attention: MLA (arXiv 2405.04434) and GLA (arXiv 2505.21487, section 3.3.2), which differ
// in the number of latent heads. Keys and values are products of a small normed latent, which is
// all that the cache holds, with one rotated key.
#include "core/description/attention/declarations.h"

namespace kha {
namespace {

constexpr int64_t largest_width = 65536;

constexpr const char* reason =
    "keys and values are never formed in latent decoding: only a linear map commutes with the sum "
    "over latents";

std::string query_projection(const ModelConfig& c) {
  return c.query_latent > 0 ? "q_b_proj" : "q_proj";
}

// Of each head's D + d_R rows the first D; the rotated ones take no map.
HeadRows query_rows(const ModelConfig& c) {
  return {
      .heads = c.num_attention_heads, .width = c.head_dim, .stride = c.head_dim + c.rope_head_dim};
}

// kv_b_proj is head by head: D rows of the key, then D_v of the value.
HeadRows key_rows(const ModelConfig& c) {
  return {
      .heads = c.num_attention_heads, .width = c.head_dim, .stride = c.head_dim + c.value_width()};
}

HeadRows value_rows(const ModelConfig& c) {
  HeadRows rows = key_rows(c);
  rows.begin = c.head_dim;
  rows.width = c.value_width();
  return rows;
}

void add_queries(const ModelConfig& c, std::vector<AttentionTensor>& tensors) {
  const int64_t rows = c.num_attention_heads * (c.head_dim + c.rope_head_dim);
  if (c.query_latent == 0) return tensors.push_back({"q_proj", rows, c.hidden_size});
  tensors.push_back({"q_a_proj", c.query_latent, c.hidden_size, true});
  tensors.push_back({"q_a_layernorm", c.query_latent});
  tensors.push_back({"q_b_proj", rows, c.query_latent});
}

// Biases stand where DeepSeek's models have them: on the projections from and to the width of the
// model, but for q_proj. kv_a_layernorm has one gain a latent head, one behind the other.
std::vector<AttentionTensor> tensors(const ModelConfig& c) {
  const int64_t latents = c.latent_heads * c.kv_latent, heads = c.num_attention_heads;
  std::vector<AttentionTensor> list;
  add_queries(c, list);
  list.push_back({"kv_a_proj_with_mqa", latents + c.rope_head_dim, c.hidden_size, true});
  list.push_back({"kv_a_layernorm", latents});
  list.push_back({"kv_b_proj", heads * (c.head_dim + c.value_width()), c.kv_latent});
  list.push_back({"o_proj", c.hidden_size, heads * c.value_width(), true});
  return list;
}

// The latents after their norm, the one rotated key after its rotation: no map is in them.
std::vector<CacheTensor> cache(const ModelConfig& c) {
  return {{"latents", c.latent_heads, c.kv_latent}, {"rotated key", 1, c.rope_head_dim}};
}

double context_flops(const ModelConfig& c) {
  const int64_t widths = c.head_dim + c.rope_head_dim + c.value_width();
  return 2.0 * static_cast<double>(c.num_attention_heads * widths);
}

// Absorbed: every query head against a latent head and the rotated key, then the sum over latents.
double absorbed_context_flops(const ModelConfig& c) {
  return 2.0 * static_cast<double>(c.num_attention_heads * (2 * c.kv_latent + c.rope_head_dim));
}

void check(const ModelConfig& c, const std::string& where) {
  refuse_parts(c, where,
               {"rope_head_dim", "kv_latent", "latent_heads", "query_latent", "value_head_dim"});
  require_part(where, "query_latent", c.query_latent, c.query_latent >= 0,
               "the width of the queries' latent, or 0 for none");
  require_part(where, "value_head_dim", c.value_head_dim,
               c.value_head_dim >= 0 && c.value_head_dim <= largest_width,
               "the width of a value head, or 0 for that of a key without its rotated part");
  require_part(where, "rope_head_dim", c.rope_head_dim,
               c.rope_head_dim > 0 && c.rope_head_dim % 2 == 0, "an even number, at least 2");
  require_part(where, "kv_latent", c.kv_latent, c.kv_latent > 0, "the width of a latent head");
  require_part(where, "latent_heads", c.latent_heads,
               c.latent_heads > 0 && c.num_attention_heads % c.latent_heads == 0,
               "a divisor of num_attention_heads");
  require_part(where, "num_key_value_heads", c.num_key_value_heads,
               c.num_key_value_heads == c.num_attention_heads,
               "num_attention_heads: every head has keys and values of its own");
}

AttentionDeclaration declare(const std::string& name, const std::string& meaning) {
  const std::vector<KnockKind> legal{KnockKind::none, KnockKind::linear};
  return {.name = name,
          .meaning = meaning,
          .places = {{KnockSlot::q, legal, "not covered by the paper in latent attention",
                      query_projection, query_rows, false},
                     {KnockSlot::k, legal, reason, always("kv_b_proj"), key_rows, false},
                     {KnockSlot::v, legal, reason, always("kv_b_proj"), value_rows, true}},
          .tensors = tensors,
          .cache = cache,
          .context_flops = context_flops,
          .check = check,
          .absorbed_context_flops = absorbed_context_flops};
}

}  // namespace

AttentionDeclaration declare_mla() {
  AttentionDeclaration mla =
      declare("mla", "multi-head latent attention: keys and values from one small latent");
  mla.check = [](const ModelConfig& c, const std::string& where) {
    check(c, where);
    require_part(where, "latent_heads", c.latent_heads, c.latent_heads == 1,
                 "1; several latent heads are attention `gla`");
  };
  return mla;
}

AttentionDeclaration declare_gla() {
  return declare("gla", "grouped latent attention: a latent head for each group of query heads");
}

}  // namespace kha
