#include "core/config/model_fields.h"

#include <initializer_list>

#include "kha/core/attention_system.h"
#include "kha/core/presets.h"

namespace kha {
namespace {

using enum OnResume;
constexpr double most_size = 1 << 24, most_width = 65536, most_experts = 1 << 16;

// A number that makes another model where it changes.
Field number(const std::string& key, FieldValue value, const std::string& help, double least,
             double most) {
  return {key, value, refused, help, {}, least, most};
}

void add(std::vector<Field>& fields, std::initializer_list<Field> more) {
  fields.insert(fields.end(), more);
}

void add_kind(std::vector<Field>& f, RunConfig& c) {
  std::vector<std::string> systems;
  for (const auto& system : attention_declarations()) systems.push_back(system.name);
  std::vector<std::string> names{""};
  for (const auto& preset : model_presets()) names.push_back(preset.name);
  add(f, {{"model.preset", &c.model_preset, free,
           "a named model's sizes below the keys given here (kha plan --list)", names},
          {"model.attention", &c.model.attention, refused, "attention system", systems}});
}

void add_sizes(std::vector<Field>& f, ModelConfig& m) {
  add(f,
      {number("model.hidden_size", &m.hidden_size, "model width d", 1, most_size),
       number("model.intermediate_size", &m.intermediate_size, "feed-forward width", 1, most_size),
       number("model.num_hidden_layers", &m.num_hidden_layers, "layers", 1, 10000)});
}

void add_heads(std::vector<Field>& f, ModelConfig& m) {
  add(f,
      {number("model.num_attention_heads", &m.num_attention_heads, "query heads H", 1, most_size),
       number("model.num_key_value_heads", &m.num_key_value_heads, "KV heads, a divisor of H", 1,
              most_size),
       number("model.head_dim", &m.head_dim, "head width D, even; H x D need not be d", 2,
              most_width)});
}

// Sizes that some systems have and others have not.
void add_attention_parts(std::vector<Field>& f, ModelConfig& m) {
  add(f,
      {number("model.rope_head_dim", &m.rope_head_dim,
              "rotated channels: gqa the first of a head's D, 0 all; gta of D; mla, gla beside D",
              0, most_width),
       number("model.kv_latent", &m.kv_latent, "width of a latent head (mla, gla)", 0, most_size),
       number("model.latent_heads", &m.latent_heads, "latent heads (mla: 1, gla)", 0, most_size),
       number("model.query_latent", &m.query_latent,
              "width of the queries' latent (mla, gla); 0: none", 0, most_size),
       number("model.value_head_dim", &m.value_head_dim,
              "width of a value head (mla, gla); 0: head_dim", 0, most_width),
       number("model.shared_key_width", &m.shared_key_width,
              "width of the queries and keys that all heads share (collaborative)", 0, most_size),
       {"model.content_bias", &m.content_bias, refused,
        "a term of the key alone in each logit (collaborative)"}});
}

void add_numerics(std::vector<Field>& f, ModelConfig& m) {
  add(f, {number("model.rms_norm_eps", &m.rms_norm_eps, "epsilon of every norm", 1e-12, 0.1),
          number("model.rope_theta", &m.rope_theta, "base of the rotary embedding", 1.0, 1e15),
          {"model.rotary_layout",
           &m.rotary_layout,
           refused,
           "pairs of rotated channels: i with i + w/2, or 2i with 2i + 1",
           {"half_split", "interleaved"}},
          {"model.tie_word_embeddings", &m.tie_word_embeddings, refused,
           "one matrix for input and output"},
          {"model.attention_bias", &m.attention_bias, refused, "biases on q, k, v, o"},
          number("model.initializer_range", &m.initializer_range, "standard deviation of the start",
                 1e-6, 10)});
}

void add_counts(std::vector<Field>& f, ExpertConfig& e) {
  add(f,
      {number("model.experts.count", &e.count, "experts of a layer E; 0: dense", 0, most_experts),
       number("model.experts.active", &e.active, "experts of a token k", 0, most_experts),
       number("model.experts.width", &e.width, "feed-forward width of an expert", 0, most_size),
       number("model.experts.shared", &e.shared, "experts of every token", 0, most_experts),
       number("model.experts.first_dense", &e.first_dense, "dense layers in front", 0, 10000)});
}

void add_router(std::vector<Field>& f, ExpertConfig& e) {
  add(f, {{"model.experts.router",
           &e.router,
           refused,
           "sigmoid: selection by score + bias; softmax: no bias",
           {"sigmoid", "softmax"}},
          {"model.experts.normalise", &e.normalise, refused, "a token's weights sum to one"},
          number("model.experts.scaling", &e.scaling, "times every weight", 1e-6, 1000),
          number("model.experts.groups", &e.groups, "groups of experts", 1, most_experts),
          number("model.experts.open_groups", &e.open_groups, "groups that a token chooses within",
                 1, most_experts)});
}

}  // namespace

void add_model_fields(std::vector<Field>& fields, RunConfig& config) {
  add_kind(fields, config);
  add_sizes(fields, config.model);
  add_heads(fields, config.model);
  add_attention_parts(fields, config.model);
  add_numerics(fields, config.model);
}

void add_mixture_fields(std::vector<Field>& fields, RunConfig& config) {
  add_counts(fields, config.model.experts);
  add_router(fields, config.model.experts);
}

void add_expert_fields(std::vector<Field>& f, RunConfig& c) {
  ExpertOptions& e = c.experts;
  f.push_back({"experts.balance_until",
               &e.balance_until,
               noted,
               "share of the steps behind which the bias stays as it is",
               {},
               0,
               1});
  f.push_back({"experts.balance",
               &e.balance,
               noted,
               "how the selection bias follows the load (sigmoid router)",
               {"rms", "sign", "proportional", "none"}});
  f.push_back({"experts.balance_rate", &e.balance_rate, noted, "step of the bias u", {}, 0, 1});
  f.push_back(
      {"experts.balance_loss", &e.balance_loss, noted, "weight of the load loss", {}, 0, 100});
  f.push_back({"experts.router_z_loss",
               &e.router_z_loss,
               noted,
               "weight of the router's squared log-sum-exp",
               {},
               0,
               100});
}

}  // namespace kha
