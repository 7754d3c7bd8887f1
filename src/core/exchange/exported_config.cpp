#include "core/exchange/exported_config.h"

#include <nlohmann/json.hpp>

#include "kha/core/plain_architecture.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

// The router by the names that loaders of DeepSeek's own configs look for: without them a sigmoid
// router is taken for a softmax one, and its bias for a tensor too many.
void add_router_keys(Json& json, const ExpertConfig& e) {
  for (const char* key : {"num_experts", "mlp_only_layers", "decoder_sparse_step", "use_qk_norm",
                          "partial_rotary_factor"}) {
    json.erase(key);
  }
  json["rope_parameters"].erase("partial_rotary_factor");
  const bool sigmoid = e.router == "sigmoid";
  json["n_routed_experts"] = e.count;
  json["n_shared_experts"] = e.shared;
  json["routed_scaling_factor"] = e.scaling;
  json["scoring_func"] = e.router;
  json["topk_method"] = sigmoid ? "noaux_tc" : e.groups > 1 ? "group_limited_greedy" : "greedy";
  json["n_group"] = e.groups;
  json["topk_group"] = e.open_groups;
}

// Without experts the first layer of experts would be behind the last.
void add_latent_keys(Json& json, const ModelConfig& c) {
  json.erase("head_dim");
  json["q_lora_rank"] = c.query_latent > 0 ? Json(c.query_latent) : nullptr;
  json["kv_lora_rank"] = c.kv_latent;
  json["qk_nope_head_dim"] = c.head_dim;
  json["qk_rope_head_dim"] = c.rope_head_dim;
  json["v_head_dim"] = c.value_width();
  json["rope_interleave"] = true;
  if (c.experts.any()) add_router_keys(json, c.experts);
  json["first_k_dense_replace"] = c.experts.any() ? c.experts.first_dense : c.num_hidden_layers;
  json["moe_layer_freq"] = 1;
}

}  // namespace

std::string exported_config_json(const ModelConfig& config) {
  const PlainArchitecture architecture = plain_architecture(config, "");
  auto json = Json::parse(to_config_json(config));
  json.erase("kha");
  json["architectures"] = {architecture.class_name};
  json["model_type"] = architecture.model_type;
  if (config.attention == "mla") add_latent_keys(json, config);
  if (architecture.model_type == "glm4_moe" || config.attention == "mla") {
    json["num_nextn_predict_layers"] = 0;
  }
  return json.dump(2) + "\n";
}

}  // namespace kha
