// Grouped-tied attention (arXiv 2505.21487, section 3.3.1): one state a KV head serves as value
// and, in its first D - d_R channels, as key; the other d_R channels of every key are one rotated
// head.
#include "core/description/attention/declarations.h"

namespace kha {
namespace {

HeadRows query_rows(const ModelConfig& c) { return whole_heads(c.num_attention_heads, c.head_dim); }

HeadRows state_rows(const ModelConfig& c) { return whole_heads(c.num_key_value_heads, c.head_dim); }

std::vector<AttentionTensor> tensors(const ModelConfig& c) {
  const int64_t d = c.hidden_size, q = c.num_attention_heads * c.head_dim,
                rotated = c.rope_head_dim, plain = c.head_dim - rotated;
  return {{"q_proj", q, d, true},      {"kv_proj", c.num_key_value_heads * c.head_dim, d, true},
          {"k_rope_proj", rotated, d}, {"q_norm", plain},
          {"q_rope_norm", rotated},    {"k_norm", plain},
          {"k_rope_norm", rotated},    {"o_proj", d, q, true}};
}

// The state after its map; the one rotated key after norm and rotation. The key's norm on the
// plain channels depends on the state alone, and is computed from it when the cache is read.
std::vector<CacheTensor> cache(const ModelConfig& c) {
  return {{"states", c.num_key_value_heads, c.head_dim}, {"rotated key", 1, c.rope_head_dim}};
}

void check(const ModelConfig& c, const std::string& where) {
  refuse_parts(c, where, {"rope_head_dim"});
  require_part(where, "rope_head_dim", c.rope_head_dim,
               c.rope_head_dim > 0 && c.rope_head_dim < c.head_dim && c.rope_head_dim % 2 == 0,
               "an even number from 2 to below head_dim " + std::to_string(c.head_dim));
}

}  // namespace

// The map acts on the tied state before it is cached ("knock, then tie"): value and plain key
// channels take one map, so the cache keeps its size for every kind.
AttentionDeclaration declare_gta() {
  return {.name = "gta",
          .meaning = "grouped-tied attention: one state is value and half of the key",
          .places = {{KnockSlot::q, every_kind, "", always("q_proj"), query_rows, false},
                     {KnockSlot::k,
                      {KnockKind::none},
                      "the plain half of a key is a slice of the value's state, so its map is that "
                      "of v; the rotated half is one head, which shares with nobody",
                      always("kv_proj"),
                      state_rows,
                      false},
                     {KnockSlot::v, every_kind, "", always("kv_proj"), state_rows, false}},
          .tensors = tensors,
          .cache = cache,
          .context_flops =
              [](const ModelConfig& c) {
                return 4.0 * static_cast<double>(c.num_attention_heads * c.head_dim);
              },
          .check = check};
}

}  // namespace kha
