#include "core/exchange/vllm_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>

#include "core/exchange/vllm_tensors.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"
#include "kha/core/model_files.h"

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
bool truth(const Json& value, const Json&) { return value.is_boolean(); }

// Layers of experts are there at all: what is said of routers matters then.
bool dense(const Json& config) {
  return whole_number(config, "first_k_dense_replace") >= whole_number(config, "num_hidden_layers");
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

const std::vector<KeyRule>& key_rules() {
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
       "float32, bfloat16 or float16", all},
      {"rope_theta", [](const Json& v, const Json&) { return v.is_number(); },
       "a number here too: releases before rope_parameters read it and default to their own", all},
      {"rope_parameters.rope_type", [](const Json& v, const Json&) { return v.is_string(); },
       "named: releases of today read this object", all},
      {"rope_parameters.rope_theta",
       [](const Json& v, const Json& c) { return v == c.value("rope_theta", Json()); },
       "the number that rope_theta has", all},
      {"head_dim", positive, "a whole number: its default is hidden_size over the heads", grouped},
      {"head_dim",
       [](const Json& v, const Json& c) {
         return v.is_number_integer() &&
                v.get<int64_t>() * whole_number(c, "num_attention_heads") ==
                    whole_number(c, "hidden_size");
       },
       "hidden_size over the heads: some releases do not read it", qwen2},
      {"num_experts_per_tok",
       [](const Json& v, const Json& c) { return dense(c) || positive(v, c); }, "a whole number",
       experts},
      {"moe_intermediate_size",
       [](const Json& v, const Json& c) { return dense(c) || positive(v, c); }, "a whole number",
       experts},
      {"norm_topk_prob", [](const Json& v, const Json& c) { return dense(c) || truth(v, c); },
       "true or false: defaults differ between the classes", experts},
      {"decoder_sparse_step", positive, "a whole number: it has no default", qwen3_moe},
      {"first_k_dense_replace", [](const Json& v, const Json&) { return v.is_number_integer(); },
       "a whole number: its default is not 0", routed},
      {"first_k_dense_replace", [](const Json&, const Json& c) { return !dense(c); },
       "less than num_hidden_layers: the class refuses a model without a layer of experts", glm},
      {"n_group", [](const Json& v, const Json& c) { return dense(c) || positive(v, c); },
       "a whole number: its default is not 1", routed},
      {"topk_group", [](const Json& v, const Json& c) { return dense(c) || positive(v, c); },
       "a whole number: its default is not 1", routed},
      {"routed_scaling_factor",
       [](const Json& v, const Json& c) { return dense(c) || v.is_number(); },
       "a number: its default is not 1", routed},
      {"use_qk_norm", truth, "true or false: its default is false", glm},
      {"rope_parameters.partial_rotary_factor", [](const Json& v, const Json&) { return v == 1.0; },
       "1.0 here: without it half of the channels are turned", glm},
      {"partial_rotary_factor", [](const Json& v, const Json&) { return v == 1.0; },
       "1.0 here too: older releases read it and turn half of the channels without it", glm},
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

Json value_at(const Json& config, const std::string& key) {
  const size_t dot = key.find('.');
  const auto entry = config.find(key.substr(0, dot));
  if (entry == config.end()) return {};
  if (dot == std::string::npos) return *entry;
  return entry->is_object() ? entry->value(key.substr(dot + 1), Json()) : Json();
}

void check_keys(const VllmClass& architecture, const Json& config,
                std::vector<std::string>& broken) {
  for (const KeyRule& rule : key_rules()) {
    if (!rule.classes(architecture)) continue;
    const Json value = value_at(config, rule.key);
    if (rule.holds(value, config)) continue;
    broken.push_back(fmt::format("`{}` is {}, and must be {}", rule.key,
                                 value.is_null() ? "absent" : value.dump().substr(0, 40),
                                 rule.demand));
  }
}

void check_tensors_of(const VllmClass& architecture, const Json& config, const ModelFiles& files,
                      std::vector<std::string>& broken) {
  const auto wanted = vllm_tensors(architecture, config);
  for (const auto& [name, shape] : wanted) {
    const TensorInfo* info = files.find(name);
    if (!info) {
      broken.push_back(name + " is not there, and the class would be left with what it starts at");
    } else if (info->shape != shape) {
      broken.push_back(fmt::format("{} is [{}], and the class has [{}]", name,
                                   fmt::join(info->shape, ", "), fmt::join(shape, ", ")));
    } else if (name.ends_with("e_score_correction_bias") && info->dtype != DType::f32) {
      broken.push_back(fmt::format("{} is {}, and the class keeps it in float32", name,
                                   safetensors_name(info->dtype)));
    }
  }
  for (const auto& name : files.names()) {
    if (wanted.count(name)) continue;
    broken.push_back(name + (name.ends_with(".bias")
                                 ? " has no place in the class, which drops biases without a word"
                                 : " has no place in the class, and loading stops at it"));
  }
}

Json read_config(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  Json config = Json::parse(text, text + file.bytes().size(), nullptr, false);
  if (config.is_object()) return config;
  fail({.what = "this is not a JSON object", .where = path.string()});
}

}  // namespace

std::vector<std::string> broken_vllm_rules(const std::filesystem::path& folder) {
  const Json config = read_config(folder / "config.json");
  const Json classes = config.value("architectures", Json::array());
  const bool named = classes.is_array() && classes.size() == 1 && classes[0].is_string();
  const std::string name = named ? classes[0].get<std::string>() : "";
  const VllmClass* architecture = vllm_class(name);
  if (!architecture) return {"`architectures` names no class that its loader has for an export"};
  std::vector<std::string> broken;
  check_keys(*architecture, config, broken);
  if (broken.empty() || config.contains("hidden_size"))
    check_tensors_of(*architecture, config, ModelFiles::open(folder), broken);
  return broken;
}

}  // namespace kha
