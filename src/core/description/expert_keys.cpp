#include "core/description/expert_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/description/expert_sizes.h"
#include "core/description/supported_value.h"

namespace kha {
namespace {

using nlohmann::json;

// The layers that `mlp_only_layers` names.
std::set<int64_t> listed_layers(ObjectReader& in, int64_t layers) {
  std::set<int64_t> listed;
  const json* list = in.find("mlp_only_layers");
  if (!list) return listed;
  if (!list->is_array()) in.wrong_type("mlp_only_layers", "a list of layer numbers", *list);
  for (const json& layer : *list) {
    if (!layer.is_number_integer())
      in.wrong_type("mlp_only_layers", "a list of layer numbers", *list);
    const auto number = layer.get<int64_t>();
    if (number < 0 || number >= layers) {
      in.refuse("`mlp_only_layers` names a layer that is not there",
                fmt::format("layers from 0 to {}", layers - 1), layer.dump());
    }
    listed.insert(number);
  }
  return listed;
}

// The dense layers that `mlp_only_layers` and `decoder_sparse_step` name.
std::set<int64_t> dense_layers(ObjectReader& in, int64_t layers) {
  std::set<int64_t> dense = listed_layers(in, layers);
  int64_t step = 1;
  in.read("decoder_sparse_step", step);
  if (step < 1)
    in.refuse("`decoder_sparse_step` is out of range", "1 or more", std::to_string(step));
  for (int64_t layer = 0; layer < layers; ++layer) {
    if ((layer + 1) % step != 0) dense.insert(layer);
  }
  return dense;
}

// Dense layers stand in front; any other order is refused, never read as something else.
void read_dense_layers(ObjectReader& in, ModelConfig& c) {
  const std::set<int64_t> dense = dense_layers(in, c.num_hidden_layers);
  const auto count = static_cast<int64_t>(dense.size());
  if (count > 0 && *dense.rbegin() != count - 1) {
    in.refuse("dense layers behind layers with experts are not supported",
              "dense layers in front alone, by `mlp_only_layers` and `decoder_sparse_step`",
              fmt::format("layer {} dense, {} dense layers in all", *dense.rbegin(), count));
  }
  c.experts.first_dense = std::max(c.experts.first_dense, count);
}

// What Glm4-MoE's class can be told to do with attention; its output projection has no bias.
void read_glm4_attention(ObjectReader& in, bool kha, ModelConfig& c) {
  c.qk_norm = kha;
  in.read("use_qk_norm", c.qk_norm);
  if (!kha && c.attention_bias) c.output_bias = false;
}

void read_qwen3_moe(ObjectReader& in, ExpertConfig& e) {
  e.router = "softmax";
  e.normalise = false;  // the class default
  read_one_of(in, {"num_experts", "num_local_experts"}, e.count);
}

void read_glm4_moe(ObjectReader& in, bool kha, ModelConfig& c) {
  ExpertConfig& e = c.experts;
  e.router = "sigmoid";
  e.shared = kha ? 0 : 1;  // the class default
  e.first_dense = kha ? 0 : 1;
  read_one_of(in, {"n_routed_experts", "num_local_experts"}, e.count);
  in.read("first_k_dense_replace", e.first_dense);
  read_groups(in, e);
  read_glm4_attention(in, kha, c);
}

// A count of experts in a model of a type without any.
void refuse_experts(ObjectReader& in, const std::string& type) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (!in.find(key)) continue;
    in.refuse("experts are not supported in a model of type `" + type + "`",
              std::string("no `") + key +
                  "`, or a model_type with experts: `qwen3_moe`, `glm4_moe`, "
                  "`deepseek_v2`, `deepseek_v3`",
              in.find(key)->dump());
  }
  in.ignore({"num_experts_per_tok"});
}

}  // namespace

void read_experts(ObjectReader& in, const std::string& type, bool kha, ModelConfig& c) {
  if (type != "qwen3_moe" && type != "glm4_moe") return refuse_experts(in, type);
  ExpertConfig& e = c.experts;
  if (type == "qwen3_moe") {
    read_qwen3_moe(in, e);
  } else {
    read_glm4_moe(in, kha, c);
  }
  read_one_of(in, {"num_experts_per_tok"}, e.active);
  read_one_of(in, {"moe_intermediate_size"}, e.width);
  in.read("norm_topk_prob", e.normalise);
  if (kha || type == "glm4_moe") {
    in.read("n_shared_experts", e.shared);
    in.read("routed_scaling_factor", e.scaling);
  }
  if (kha && type == "qwen3_moe") read_groups(in, e);
  if (type == "qwen3_moe") read_dense_layers(in, c);
  // Of the training by transformers; and of layers that predict further tokens, which its class
  // leaves out.
  in.ignore({"router_aux_loss_coef", "output_router_logits", "num_nextn_predict_layers",
             "num_mtp_layers"});
}

}  // namespace kha
