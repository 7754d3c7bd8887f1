// Grouped-tied attention (arXiv 2505.21487, section 3.3.1): one state a KV head serves as value
// and, in its first D - d_R channels, as key; the other d_R channels of every key are one rotated
// head. Three systems, which differ in where maps on values and keys stand.
#include "core/description/attention/declarations.h"

namespace kha {
namespace {

const std::vector<KnockKind> linear_alone{KnockKind::none, KnockKind::linear};

constexpr const char* tied_cache =
    "it would break the tied cache: only a linear map commutes with the sum over states";

HeadRows query_rows(const ModelConfig& c) { return whole_heads(c.num_attention_heads, c.head_dim); }

HeadRows state_rows(const ModelConfig& c) { return whole_heads(c.num_key_value_heads, c.head_dim); }

// The plain channels of every query, where the map on keys acts.
HeadRows plain_query_rows(const ModelConfig& c) {
  return {
      .heads = c.num_attention_heads, .width = c.head_dim - c.rope_head_dim, .stride = c.head_dim};
}

std::vector<AttentionTensor> projections(const ModelConfig& c) {
  const int64_t d = c.hidden_size, q = c.num_attention_heads * c.head_dim;
  return {{"q_proj", q, d, true},
          {"kv_proj", c.num_key_value_heads * c.head_dim, d, true},
          {"k_rope_proj", c.rope_head_dim, d},
          {"o_proj", d, q, true}};
}

std::vector<AttentionTensor> with_norms(const ModelConfig& c) {
  const int64_t rotated = c.rope_head_dim, plain = c.head_dim - rotated;
  std::vector<AttentionTensor> list = projections(c);
  const std::vector<AttentionTensor> norms{
      {"q_norm", plain}, {"q_rope_norm", rotated}, {"k_norm", plain}, {"k_rope_norm", rotated}};
  list.insert(list.end() - 1, norms.begin(), norms.end());
  return list;
}

// The state, in `gta` after its map; the one rotated key after norm and rotation. The key's norm on
// the plain channels depends on the state alone, and is computed from it when the cache is read.
std::vector<CacheTensor> cache(const ModelConfig& c) {
  return {{"states", c.num_key_value_heads, c.head_dim}, {"rotated key", 1, c.rope_head_dim}};
}

void check(const ModelConfig& c, const std::string& where) {
  refuse_parts(c, where, {"rope_head_dim"});
  require_part(where, "rope_head_dim", c.rope_head_dim,
               c.rope_head_dim > 0 && c.rope_head_dim < c.head_dim && c.rope_head_dim % 2 == 0,
               "an even number from 2 to below head_dim " + std::to_string(c.head_dim));
}

double context_flops(const ModelConfig& c) {
  return 4.0 * static_cast<double>(c.num_attention_heads * c.head_dim);
}

// The map on values leaves the state plain: it acts on the sums over states, once a query head.
KnockPlace value_behind_the_sum() {
  return {KnockSlot::v, linear_alone, tied_cache,      always("o_proj"),
          query_rows,   true,         FoldHome::output};
}

KnockPlace linear_query() {
  return {KnockSlot::q,     linear_alone, "every kind on q is legal in attention `gta`",
          always("q_proj"), query_rows,   false};
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
                      "of v (`gta_apart` has linear maps for both); the rotated half is one head, "
                      "which shares with nobody",
                      always("kv_proj"),
                      state_rows,
                      false},
                     {KnockSlot::v, every_kind, "", always("kv_proj"), state_rows, false}},
          .tensors = with_norms,
          .cache = cache,
          .context_flops = context_flops,
          .check = check};
}

// Keys from the plain state, values through a map of their own.
AttentionDeclaration declare_gta_value() {
  AttentionDeclaration system = declare_gta();
  system.name = "gta_value";
  system.meaning =
      "grouped-tied attention whose map on v leaves the cached state and the key plain";
  system.places = {linear_query(),
                   {KnockSlot::k,
                    {KnockKind::none},
                    "the plain half of a key is the cached state itself (`gta_apart` has a linear "
                    "map for it)",
                    always("kv_proj"),
                    state_rows,
                    false},
                   value_behind_the_sum()};
  return system;
}

// Maps of their own for keys and values, neither in the cached state. No norms, as in the paper of
// this attention: one of the key would depend on its map, which then could not act on the query.
AttentionDeclaration declare_gta_apart() {
  AttentionDeclaration system = declare_gta();
  system.name = "gta_apart";
  system.meaning =
      "grouped-tied attention with linear maps of their own for key and value; no QK-norm";
  system.places = {linear_query(),
                   {KnockSlot::k, linear_alone, tied_cache, always("q_proj"), plain_query_rows,
                    false, FoldHome::queries},
                   value_behind_the_sum()};
  system.tensors = projections;
  return system;
}

}  // namespace kha
