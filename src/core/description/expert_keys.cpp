#include "core/description/expert_keys.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "core/description/require.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using nlohmann::json;

// The size under one of its names; two names with two values contradict each other.
void read_required(ObjectReader& in, std::initializer_list<const char*> names, int64_t& value) {
  const char* found = nullptr;
  for (const char* name : names) {
    if (!in.find(name)) continue;
    int64_t own = 0;
    in.read(name, own);
    if (found && own != value) {
      in.refuse(fmt::format("`{}` and `{}` contradict each other", found, name),
                "one number of experts", fmt::format("{} and {}", value, own));
    }
    value = own;
    found = name;
  }
  if (!found)
    in.refuse(fmt::format("`{}` is missing", *names.begin()), "a whole number", "nothing");
}

// The dense layers that `mlp_only_layers` and `decoder_sparse_step` name.
std::set<int64_t> dense_layers(ObjectReader& in, int64_t layers) {
  std::set<int64_t> dense;
  if (const json* list = in.find("mlp_only_layers")) {
    if (!list->is_array()) in.wrong_type("mlp_only_layers", "a list of layer numbers", *list);
    for (const json& layer : *list) {
      if (!layer.is_number_integer())
        in.wrong_type("mlp_only_layers", "a list of layer numbers", *list);
      const auto number = layer.get<int64_t>();
      if (number < 0 || number >= layers) {
        in.refuse("`mlp_only_layers` names a layer that is not there",
                  fmt::format("layers from 0 to {}", layers - 1), layer.dump());
      }
      dense.insert(number);
    }
  }
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

void require_value(ObjectReader& in, const std::string& key, double expected, double absent) {
  double value = absent;
  in.read(key, value);
  if (value == expected) return;
  in.refuse(fmt::format("`{}` is not supported with this value", key),
            fmt::format("{:g}", expected),
            in.find(key) ? fmt::format("{:g}", value)
                         : fmt::format("no such key, which means {:g} to transformers", absent));
}

void read_groups(ObjectReader& in, ExpertConfig& e) {
  in.read("n_group", e.groups);
  in.read("topk_group", e.open_groups);
}

// What Glm4-MoE's class can be told to do with attention; its output projection has no bias.
void read_glm4_attention(ObjectReader& in, bool kha, ModelConfig& c) {
  c.qk_norm = kha;
  in.read("use_qk_norm", c.qk_norm);
  if (!kha && c.attention_bias) c.output_bias = false;
  const bool placed =
      in.find("rope_parameters") && in.find("rope_parameters")->contains("partial_rotary_factor");
  require_value(in, "partial_rotary_factor", 1, kha || placed ? 1 : 0.5);
}

void read_qwen3_moe(ObjectReader& in, ExpertConfig& e) {
  e.router = "softmax";
  e.normalise = false;  // the class default
  read_required(in, {"num_experts", "num_local_experts"}, e.count);
}

void read_glm4_moe(ObjectReader& in, bool kha, ModelConfig& c) {
  ExpertConfig& e = c.experts;
  e.router = "sigmoid";
  e.shared = kha ? 0 : 1;  // the class default
  e.first_dense = kha ? 0 : 1;
  read_required(in, {"n_routed_experts", "num_local_experts"}, e.count);
  in.read("first_k_dense_replace", e.first_dense);
  read_groups(in, e);
  read_glm4_attention(in, kha, c);
}

void require_text(ObjectReader& in, const std::string& key, const std::string& expected) {
  std::string value = expected;
  in.read(key, value);
  if (value != expected)
    in.refuse("`" + key + "` is not supported with this value", expected, value);
}

void read_deepseek_v3(ObjectReader& in, ExpertConfig& e) {
  e.router = "sigmoid";
  e.shared = 1;  // here and below: the class defaults
  e.scaling = 2.5;
  e.groups = 8;
  e.open_groups = 4;
  read_groups(in, e);
  require_text(in, "scoring_func", "sigmoid");
  require_text(in, "topk_method", "noaux_tc");
  in.read("norm_topk_prob", e.normalise);
}

// The class scales the weights and never normalises them; DeepSeek's own code does one or the
// other.
void read_deepseek_v2(ObjectReader& in, ExpertConfig& e) {
  e.router = "softmax";
  e.shared = 2;
  e.normalise = false;
  std::string method = "greedy";
  in.read("topk_method", method);
  if (method != "greedy" && method != "group_limited_greedy") {
    in.refuse("`topk_method` is not supported with this value", "greedy or group_limited_greedy",
              method);
  }
  if (method == "greedy") {
    in.ignore({"n_group", "topk_group"});
  } else {
    read_groups(in, e);
  }
  require_text(in, "scoring_func", "softmax");
  in.read("norm_topk_prob", e.normalise);
  if (!e.normalise) return;
  in.refuse(
      "normalised weights are not supported in this class: transformers leaves the key unread",
      "norm_topk_prob false", "true");
}

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
  json["partial_rotary_factor"] = 1.0;
  json["rope_parameters"]["partial_rotary_factor"] = 1.0;
}

void require_experts(bool good, const std::string& where, const std::string& key,
                     const std::string& value, const std::string& expected) {
  require(good, where, "experts." + key, value, expected);
}

void require_between(int64_t value, int64_t least, int64_t most, const std::string& where,
                     const std::string& key) {
  require_experts(value >= least && value <= most, where, key, std::to_string(value),
                  fmt::format("a whole number from {} to {}", least, most));
}

void validate_dense(const ExpertConfig& e, const std::string& where) {
  const std::pair<const char*, int64_t> sizes[] = {{"active", e.active},
                                                   {"width", e.width},
                                                   {"shared", e.shared},
                                                   {"first_dense", e.first_dense}};
  for (const auto& [key, value] : sizes) {
    if (value == 0) continue;
    fail({.what = fmt::format("`experts.{}` is given, but the model has no experts", key),
          .where = where,
          .expected = "experts.count of 1 or more",
          .found = fmt::format("experts.count {}, experts.{} {}", e.count, key, value),
          .next = "set experts.count, or remove the key"});
  }
}

}  // namespace

void read_experts(ObjectReader& in, const std::string& type, bool kha, ModelConfig& c) {
  ExpertConfig& e = c.experts;
  if (type != "qwen3_moe" && type != "glm4_moe") {
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      if (!in.find(key)) continue;
      in.refuse("experts are not supported in a model of type `" + type + "`",
                std::string("no `") + key +
                    "`, or a model_type with experts: `qwen3_moe`, `glm4_moe`, "
                    "`deepseek_v2`, `deepseek_v3`",
                in.find(key)->dump());
    }
    in.ignore({"num_experts_per_tok"});
    return;
  }
  if (type == "qwen3_moe") {
    read_qwen3_moe(in, e);
  } else {
    read_glm4_moe(in, kha, c);
  }
  read_required(in, {"num_experts_per_tok"}, e.active);
  read_required(in, {"moe_intermediate_size"}, e.width);
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

void read_latent_experts(ObjectReader& in, const std::string& type, ModelConfig& c) {
  ExpertConfig e;
  e.first_dense = type == "deepseek_v3" ? 3 : 0;  // the class defaults
  in.read("first_k_dense_replace", e.first_dense);
  in.ignore({"moe_layer_freq", "aux_loss_alpha", "seq_aux", "output_router_logits",
             "num_nextn_predict_layers", "num_mtp_layers", "ep_size"});
  // All layers dense: what is said of experts is said of none.
  if (e.first_dense >= c.num_hidden_layers) {
    in.ignore({"moe_intermediate_size", "n_routed_experts", "num_local_experts", "num_experts",
               "n_shared_experts", "num_experts_per_tok", "n_group", "topk_group", "topk_method",
               "scoring_func", "norm_topk_prob", "routed_scaling_factor"});
    return;
  }
  require_value(in, "moe_layer_freq", 1, 1);
  read_required(in, {"n_routed_experts", "num_local_experts", "num_experts"}, e.count);
  read_required(in, {"num_experts_per_tok"}, e.active);
  read_required(in, {"moe_intermediate_size"}, e.width);
  if (type == "deepseek_v3") {
    read_deepseek_v3(in, e);
  } else {
    read_deepseek_v2(in, e);
  }
  in.read("n_shared_experts", e.shared);
  in.read("routed_scaling_factor", e.scaling);
  c.experts = e;
}

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

namespace {

// A group has two experts at least where its score is a sum of two.
void validate_groups(const ExpertConfig& e, const std::string& where) {
  require_between(e.groups, 1, e.count, where, "groups");
  require_experts(e.count % e.groups == 0, where, "groups", std::to_string(e.groups),
                  fmt::format("a divisor of the {} experts", e.count));
  require_between(e.open_groups, 1, e.groups, where, "open_groups");
  if (e.groups == 1) return;
  const int64_t size = e.count / e.groups;
  require_experts(e.router == "softmax" || size > 1, where, "groups", std::to_string(e.groups),
                  "groups of at least 2 experts: a group's score is the sum of two");
  require_experts(
      e.active <= e.open_groups * size, where, "active", std::to_string(e.active),
      fmt::format("at most {}, the experts of {} groups", e.open_groups * size, e.open_groups));
}

}  // namespace

void validate_experts(const ModelConfig& config, const std::string& where) {
  const ExpertConfig& e = config.experts;
  constexpr int64_t most_experts = 1 << 16, most_size = int64_t{1} << 24;
  require_between(e.count, 0, most_experts, where, "count");
  if (e.count == 0) return validate_dense(e, where);
  require_between(e.active, 1, e.count, where, "active");
  require_between(e.width, 1, most_size, where, "width");
  require_between(e.shared, 0, most_experts, where, "shared");
  require_experts(e.shared * e.width <= most_size, where, "shared",
                  fmt::format("{} experts of width {}", e.shared, e.width),
                  fmt::format("at most {} rows together", most_size));
  require_between(e.first_dense, 0, config.num_hidden_layers, where, "first_dense");
  require_experts(e.router == "sigmoid" || e.router == "softmax", where, "router", e.router,
                  "sigmoid or softmax");
  validate_groups(e, where);
  require_experts(e.scaling > 0 && e.scaling <= 1000, where, "scaling",
                  fmt::format("{}", e.scaling), "a number above 0, at most 1000");
}

}  // namespace kha
