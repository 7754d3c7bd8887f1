// A mixture of experts written into config.json, under the names of its class.
#include <cmath>

#include "core/description/expert_keys.h"

namespace kha {
namespace {

nlohmann::ordered_json layer_list(int64_t count) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int64_t layer = 0; layer < count; ++layer) list.push_back(layer);
  return list;
}

void write_qwen3_moe(nlohmann::ordered_json& json, const ExpertConfig& e) {
  json["num_experts"] = e.count;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = layer_list(e.first_dense);
  // Unknown to the class: a model that has them is of type `kha`.
  if (e.shared > 0) json["n_shared_experts"] = e.shared;
  if (e.scaling != 1.0) json["routed_scaling_factor"] = e.scaling;
  if (e.groups == 1) return;
  json["n_group"] = e.groups;
  json["topk_group"] = e.open_groups;
}

// Readers take the whole part of share times width: a quotient that falls short of the channels by
// a rounding would lose one, so it is raised to the next number that does not.
double turned_share(const ModelConfig& c) {
  if (c.attention != "gqa" || c.rope_head_dim == 0) return 1.0;
  const auto width = static_cast<double>(c.head_dim), turned = static_cast<double>(c.rope_head_dim);
  double share = turned / width;
  while (share * width < turned) share = std::nextafter(share, 1.0);
  return share;
}

void write_glm4_moe(nlohmann::ordered_json& json, const ModelConfig& c) {
  const ExpertConfig& e = c.experts;
  json["n_routed_experts"] = e.count;
  json["n_shared_experts"] = e.shared;
  json["n_group"] = e.groups;
  json["topk_group"] = e.open_groups;
  json["first_k_dense_replace"] = e.first_dense;
  json["routed_scaling_factor"] = e.scaling;
  json["use_qk_norm"] = c.qk_norm;
  // At both places: readers look at one or the other and silently take 0.5 where it is missing.
  const double share = turned_share(c);
  json["partial_rotary_factor"] = share;
  json["rope_parameters"]["partial_rotary_factor"] = share;
}

}  // namespace

void write_experts(nlohmann::ordered_json& json, const ModelConfig& config) {
  const ExpertConfig& e = config.experts;
  if (!e.any()) return;
  if (e.router == "softmax") {
    write_qwen3_moe(json, e);
  } else {
    write_glm4_moe(json, config);
  }
  json["num_experts_per_tok"] = e.active;
  json["moe_intermediate_size"] = e.width;
  json["norm_topk_prob"] = e.normalise;
}

}  // namespace kha
