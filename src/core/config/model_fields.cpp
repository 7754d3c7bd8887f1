#include "core/config/model_fields.h"

#include "kha/core/attention_system.h"
#include "kha/core/presets.h"

namespace kha {
namespace {

using enum OnResume;
constexpr double large = 1e15;

}  // namespace

void add_model_fields(std::vector<Field>& f, RunConfig& c) {
  ModelConfig& m = c.model;
  const double most = 1 << 24;
  std::vector<std::string> systems;
  for (const auto& system : attention_declarations()) systems.push_back(system.name);
  std::vector<std::string> names{""};
  for (const auto& preset : model_presets()) names.push_back(preset.name);
  f.push_back({"model.preset", &c.model_preset, free,
               "a named model's sizes below the keys given here (kha plan --list)", names});
  f.push_back({"model.attention", &m.attention, refused, "attention system", systems});
  f.push_back({"model.hidden_size", &m.hidden_size, refused, "model width d", {}, 1, most});
  f.push_back({"model.intermediate_size",
               &m.intermediate_size,
               refused,
               "feed-forward width",
               {},
               1,
               most});
  f.push_back({"model.num_hidden_layers", &m.num_hidden_layers, refused, "layers", {}, 1, 10000});
  f.push_back(
      {"model.num_attention_heads", &m.num_attention_heads, refused, "query heads H", {}, 1, most});
  f.push_back({"model.num_key_value_heads",
               &m.num_key_value_heads,
               refused,
               "KV heads, a divisor of H",
               {},
               1,
               most});
  f.push_back({"model.head_dim",
               &m.head_dim,
               refused,
               "head width D, even; H x D need not be d",
               {},
               2,
               65536});
  f.push_back({"model.rope_head_dim",
               &m.rope_head_dim,
               refused,
               "rotated channels: gta of a head's D, mla and gla beside them",
               {},
               0,
               65536});
  f.push_back(
      {"model.kv_latent", &m.kv_latent, refused, "width of a latent head (mla, gla)", {}, 0, most});
  f.push_back(
      {"model.latent_heads", &m.latent_heads, refused, "latent heads (mla: 1, gla)", {}, 0, most});
  f.push_back({"model.query_latent",
               &m.query_latent,
               refused,
               "width of the queries' latent (mla, gla); 0: none",
               {},
               0,
               most});
  f.push_back({"model.value_head_dim",
               &m.value_head_dim,
               refused,
               "width of a value head (mla, gla); 0: head_dim",
               {},
               0,
               65536});
  f.push_back({"model.shared_key_width",
               &m.shared_key_width,
               refused,
               "width of the queries and keys that all heads share (collaborative)",
               {},
               0,
               most});
  f.push_back({"model.content_bias", &m.content_bias, refused,
               "a term of the key alone in each logit (collaborative)"});
  f.push_back(
      {"model.rms_norm_eps", &m.rms_norm_eps, refused, "epsilon of every norm", {}, 1e-12, 0.1});
  f.push_back(
      {"model.rope_theta", &m.rope_theta, refused, "base of the rotary embedding", {}, 1.0, large});
  f.push_back({"model.rotary_layout",
               &m.rotary_layout,
               refused,
               "pairs of rotated channels: i with i + w/2, or 2i with 2i + 1",
               {"half_split", "interleaved"}});
  f.push_back({"model.tie_word_embeddings", &m.tie_word_embeddings, refused,
               "one matrix for input and output"});
  f.push_back({"model.attention_bias", &m.attention_bias, refused, "biases on q, k, v, o"});
  f.push_back({"model.initializer_range",
               &m.initializer_range,
               refused,
               "standard deviation of the start",
               {},
               1e-6,
               10});
}

void add_mixture_fields(std::vector<Field>& f, RunConfig& c) {
  ExpertConfig& e = c.model.experts;
  const double most = 1 << 24, most_experts = 1 << 16;
  const std::string key = "model.experts.";
  f.push_back(
      {key + "count", &e.count, refused, "experts of a layer E; 0: dense", {}, 0, most_experts});
  f.push_back({key + "active", &e.active, refused, "experts of a token k", {}, 0, most_experts});
  f.push_back({key + "width", &e.width, refused, "feed-forward width of an expert", {}, 0, most});
  f.push_back({key + "shared", &e.shared, refused, "experts of every token", {}, 0, most_experts});
  f.push_back(
      {key + "first_dense", &e.first_dense, refused, "dense layers in front", {}, 0, 10000});
  f.push_back({key + "router",
               &e.router,
               refused,
               "sigmoid: selection by score + bias; softmax: no bias",
               {"sigmoid", "softmax"}});
  f.push_back({key + "normalise", &e.normalise, refused, "a token's weights sum to one"});
  f.push_back({key + "scaling", &e.scaling, refused, "times every weight", {}, 1e-6, 1000});
  f.push_back({key + "groups", &e.groups, refused, "groups of experts", {}, 1, most_experts});
  f.push_back({key + "open_groups",
               &e.open_groups,
               refused,
               "groups that a token chooses within",
               {},
               1,
               most_experts});
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
