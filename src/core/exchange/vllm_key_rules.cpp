#include "core/exchange/vllm_key_rules.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace kha {
namespace {

using Json = nlohmann::json;

// Holds of config.json; `demand` completes "`key` must be ...".
struct KeyRule {
  std::string key;  // "rope_parameters.rope_type": of the object inside
  std::function<bool(const Json& value, const Json& config)> holds;
  std::string demand;
  std::function<bool(const VllmClass&)> classes = [](const VllmClass&) { return true; };
};

bool all(const VllmClass&) { return true; }
bool latent(const VllmClass& c) { return c.latent; }
bool grouped(const VllmClass& c) { return !c.latent; }
bool glm(const VllmClass& c) { return c.name == "Glm4MoeForCausalLM"; }
bool qwen2(const VllmClass& c) { return c.name == "Qwen2ForCausalLM"; }
bool qwen3_moe(const VllmClass& c) { return c.name == "Qwen3MoeForCausalLM"; }
bool experts(const VllmClass& c) { return !c.experts.empty(); }
bool routed(const VllmClass& c) { return c.experts == "n_routed_experts"; }
bool deepseek_v3(const VllmClass& c) { return c.name == "DeepseekV3ForCausalLM"; }

bool positive(const Json& value, const Json&) {
  return value.is_number_integer() && value.get<int64_t>() > 0;
}

Json value_at(const Json& config, const std::string& key) {
  const size_t dot = key.find('.');
  const auto entry = config.find(key.substr(0, dot));
  if (entry == config.end()) return {};
  if (dot == std::string::npos) return *entry;
  return entry->is_object() ? entry->value(key.substr(dot + 1), Json()) : Json();
}

bool a_share(const Json& value, const Json&) {
  return value.is_number() && value > 0 && value <= 1;
}

bool truth(const Json& value, const Json&) { return value.is_boolean(); }

// No layer has experts: what is said of them does not matter then.
bool dense(const Json& config) {
  return whole_number(config, "first_k_dense_replace") >= whole_number(config, "num_hidden_layers");
}

bool positive_if_routed(const Json& value, const Json& config) {
  return dense(config) || positive(value, config);
}

bool scored_as_selected(const Json& value, const Json& config) {
  return dense(config) ||
         value == (config.value("topk_method", Json()) == "noaux_tc" ? "sigmoid" : "softmax");
}

// Its own formula, from mscale (1 if absent) and mscale_all_dim (0).
bool deepseek_amplitude(const Json& value, const Json& config) {
  const Json rope = config.value("rope_parameters", Json::object());
  if (value.is_null() || !rope.is_object() || rope.value("rope_type", Json()) != "yarn")
    return true;
  const auto real = [&](const char* key, double absent) {
    const auto entry = rope.find(key);
    return entry != rope.end() && entry->is_number() ? entry->get<double>() : absent;
  };
  const double factor = real("factor", 1);
  const auto scale = [&](double weight) {
    return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
  };
  const double own = scale(real("mscale", 1)) / scale(real("mscale_all_dim", 0));
  return value.is_number() && std::abs(value.get<double>() - own) < 1e-9;
}

const std::vector<KeyRule>& size_rules() {
  static const std::vector<KeyRule> rules{
      {"vocab_size", positive, "a whole number", all},
      {"hidden_size", positive, "a whole number", all},
      {"intermediate_size", positive, "a whole number", all},
      {"num_hidden_layers", positive, "a whole number", all},
      {"num_attention_heads", positive, "a whole number", all},
      {"num_key_value_heads", positive, "a whole number", all},
      {"max_position_embeddings", positive, "a whole number", all},
      {"tie_word_embeddings", truth, "true or false: some classes default to true", all},
      {"hidden_act", [](const Json& v, const Json&) { return v == "silu"; },
       "silu, the only one its feed-forwards have", all},
      {"torch_dtype",
       [](const Json& v, const Json&) {
         return v == "float32" || v == "bfloat16" || v == "float16";
       },
       "float32, bfloat16 or float16", all}};
  return rules;
}

const std::vector<KeyRule>& rotary_rules() {
  static const std::vector<KeyRule> rules{
      {"rope_theta", [](const Json& v, const Json&) { return v.is_number(); },
       "a number here too: releases before rope_parameters read it and default to their own", all},
      {"rope_parameters.rope_type", [](const Json& v, const Json&) { return v.is_string(); },
       "named: releases of today read this object", all},
      {"rope_parameters.rope_theta",
       [](const Json& v, const Json& c) { return v == c.value("rope_theta", Json()); },
       "the number that rope_theta has", all}};
  return rules;
}

const std::vector<KeyRule>& head_rules() {
  static const std::vector<KeyRule> rules{
      {"head_dim", positive, "a whole number: its default is hidden_size over the heads", grouped},
      {"head_dim",
       [](const Json& v, const Json& c) {
         return v.is_number_integer() &&
                v.get<int64_t>() * whole_number(c, "num_attention_heads") ==
                    whole_number(c, "hidden_size");
       },
       "hidden_size over the heads: some releases do not read it", qwen2}};
  return rules;
}

// Of the classes with experts: their sizes, their routers, and which layers have them.
const std::vector<KeyRule>& expert_rules() {
  static const std::vector<KeyRule> rules{
      {"num_experts_per_tok", positive_if_routed, "a whole number", experts},
      {"moe_intermediate_size", positive_if_routed, "a whole number", experts},
      {"norm_topk_prob", [](const Json& v, const Json& c) { return dense(c) || truth(v, c); },
       "true or false: defaults differ between the classes", experts},
      {"decoder_sparse_step", positive, "a whole number: it has no default", qwen3_moe},
      {"first_k_dense_replace", [](const Json& v, const Json&) { return v.is_number_integer(); },
       "a whole number: its default is not 0", routed},
      {"first_k_dense_replace", [](const Json&, const Json& c) { return !dense(c); },
       "less than num_hidden_layers: the class refuses a model without a layer of experts", glm},
      {"n_group", positive_if_routed, "a whole number: its default is not 1", routed},
      {"topk_group", positive_if_routed, "a whole number: its default is not 1", routed},
      {"routed_scaling_factor",
       [](const Json& v, const Json& c) { return dense(c) || v.is_number(); },
       "a number: its default is not 1", routed}};
  return rules;
}

// The rest of what Glm4-MoE's class needs.
const std::vector<KeyRule>& glm_rules() {
  static const std::vector<KeyRule> rules{
      {"use_qk_norm", truth, "true or false: its default is false", glm},
      {"rope_parameters.partial_rotary_factor", a_share,
       "from above 0 to 1: without it half of the channels are turned", glm},
      {"partial_rotary_factor",
       [](const Json& v, const Json& c) {
         return a_share(v, c) && v == value_at(c, "rope_parameters.partial_rotary_factor");
       },
       "what rope_parameters say: older releases read it here, and turn half without it", glm}};
  return rules;
}

// Of the classes with latent attention.
const std::vector<KeyRule>& latent_rules() {
  static const std::vector<KeyRule> rules{
      {"scoring_func", scored_as_selected,
       "sigmoid beside topk_method noaux_tc, else softmax: absent means softmax", latent},
      {"topk_method", [](const Json& v, const Json& c) { return dense(c) || v == "noaux_tc"; },
       "noaux_tc: without it the class has no selection bias", deepseek_v3},
      {"attention_bias", [](const Json& v, const Json&) { return v != true; },
       "false: the class has no biases and would drop them without a word", latent},
      {"rms_norm_eps", [](const Json& v, const Json&) { return v == 1e-6; },
       "1e-06: the norms of the latents have it there, and 1e-06 in transformers", latent},
      {"rope_parameters.rope_type",
       [](const Json& v, const Json&) { return v == "default" || v == "yarn"; },
       "default or yarn: any other is computed as yarn", latent},
      {"rope_parameters.attention_factor", deepseek_amplitude,
       "absent or what mscale and mscale_all_dim give: it is not read", latent}};
  return rules;
}

}  // namespace

void check_vllm_keys(const VllmClass& architecture, const Json& config,
                     std::vector<std::string>& broken) {
  for (const std::vector<KeyRule>& (*rules)() :
       {size_rules, rotary_rules, head_rules, expert_rules, glm_rules, latent_rules}) {
    for (const KeyRule& rule : rules()) {
      if (!rule.classes(architecture)) continue;
      const Json value = value_at(config, rule.key);
      if (rule.holds(value, config)) continue;
      broken.push_back(fmt::format("`{}` is {}, and must be {}", rule.key,
                                   value.is_null() ? "absent" : value.dump().substr(0, 40),
                                   rule.demand));
    }
  }
}

}  // namespace kha
