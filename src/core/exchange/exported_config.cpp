#include "core/exchange/exported_config.h"

#include <nlohmann/json.hpp>

#include "kha/core/plain_architecture.h"

namespace kha {
namespace {

// Dense layers alone: the first of experts would be behind the last.
void add_latent_keys(nlohmann::ordered_json& json, const ModelConfig& c) {
  json.erase("head_dim");
  json["q_lora_rank"] = c.query_latent > 0 ? nlohmann::ordered_json(c.query_latent) : nullptr;
  json["kv_lora_rank"] = c.kv_latent;
  json["qk_nope_head_dim"] = c.head_dim;
  json["qk_rope_head_dim"] = c.rope_head_dim;
  json["v_head_dim"] = c.value_width();
  json["rope_interleave"] = true;
  json["first_k_dense_replace"] = c.num_hidden_layers;
  json["moe_layer_freq"] = 1;
  json["num_nextn_predict_layers"] = 0;
}

}  // namespace

std::string exported_config_json(const ModelConfig& config) {
  const PlainArchitecture architecture = plain_architecture(config, "");
  auto json = nlohmann::ordered_json::parse(to_config_json(config));
  json.erase("kha");
  json["architectures"] = {architecture.class_name};
  json["model_type"] = architecture.model_type;
  if (config.attention == "mla") add_latent_keys(json, config);
  return json.dump(2) + "\n";
}

}  // namespace kha
