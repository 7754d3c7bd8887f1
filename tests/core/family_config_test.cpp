// config.json of the families of transformers besides Qwen3.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/thrown.h"
#include "kha/core/model_config.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;

json family(const std::string& type, const json& more = json::object()) {
  json config{{"model_type", type},       {"vocab_size", 300},      {"hidden_size", 48},
              {"intermediate_size", 96},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
              {"num_key_value_heads", 4}, {"rms_norm_eps", 1e-6}};
  config.update(more);
  return config;
}

json latent(const json& more = json::object()) {
  json config = family("deepseek_v3", {{"first_k_dense_replace", 4},
                                       {"kv_lora_rank", 20},
                                       {"qk_nope_head_dim", 16},
                                       {"qk_rope_head_dim", 6},
                                       {"v_head_dim", 16},
                                       {"q_lora_rank", nullptr},
                                       {"rope_interleave", false}});
  config.update(more);
  return config;
}

ModelConfig parse(const json& config) { return parse_model_config(config.dump(), "m/config.json"); }
std::string refusal(const json& config) {
  return thrown([&] { parse(config); });
}

std::vector<std::string> names_of(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_table(config)) names.push_back(spec.name);
  return names;
}

bool has_name(const ModelConfig& config, const std::string& part) {
  for (const auto& name : names_of(config)) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(FamilyConfig, LlamaHasNoNormsOfHeads) {
  const ModelConfig c = parse(family("llama", {{"mlp_bias", false}, {"pretraining_tp", 1}}));
  EXPECT_FALSE(c.qk_norm);
  EXPECT_EQ(c.head_dim, 12);  // the width over the heads
  EXPECT_EQ(c.max_position_embeddings, 2048);
  EXPECT_TRUE(c.plain());
  EXPECT_FALSE(has_name(c, "q_norm"));
  EXPECT_FALSE(has_name(c, "bias"));
  EXPECT_EQ(parse(family("llama", {{"head_dim", nullptr}, {"rope_scaling", nullptr}})), c);
  const ModelConfig biased = parse(family("llama", {{"attention_bias", true}}));
  EXPECT_THAT(names_of(biased), IsSupersetOf({"model.layers.0.self_attn.q_proj.bias",
                                              "model.layers.3.self_attn.o_proj.bias"}));
  EXPECT_THAT(refusal(family("llama", {{"mlp_bias", true}})), HasSubstr("mlp_bias false"));
}

TEST(FamilyConfig, Qwen2HasBiasesBeforeTheHeadsAlone) {
  for (const json& more : {json::object(), json{{"attention_bias", false}}}) {
    const ModelConfig c = parse(family("qwen2", more));
    EXPECT_TRUE(has_name(c, "q_proj.bias") && has_name(c, "k_proj.bias"));
    EXPECT_TRUE(has_name(c, "v_proj.bias"));
    EXPECT_FALSE(has_name(c, "o_proj.bias"));
    EXPECT_FALSE(c.qk_norm);
  }
}

TEST(FamilyConfig, MistralsWindowCountsWhereItIsShorterThanTheContext) {
  const auto windowed = [](const json& window, int64_t context) {
    return family("mistral", {{"sliding_window", window}, {"max_position_embeddings", context}});
  };
  EXPECT_EQ(parse(windowed(nullptr, 64)), parse(windowed(64, 64)));
  EXPECT_THAT(refusal(windowed(63, 64)), AllOf(HasSubstr("sliding windows are not supported"),
                                               HasSubstr("at least max_position_embeddings 64")));
  // Absent is 4,096 to the class.
  EXPECT_FALSE(parse(family("mistral", {{"max_position_embeddings", 4096}})).qk_norm);
  EXPECT_THAT(refusal(family("mistral", {{"max_position_embeddings", 4097}})),
              HasSubstr("no such key, which means 4096"));
}

TEST(FamilyConfig, EveryPlainFamilyIsWrittenAsItIsComputed) {
  const std::pair<const char*, const char*> pairs[] = {
      {"llama", "llama"}, {"mistral", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}};
  for (const auto& [read, written] : pairs) {
    json config = family(read);
    if (std::string(read) == "mistral") config["sliding_window"] = nullptr;
    const ModelConfig c = parse(config);
    const json text = json::parse(to_config_json(c));
    EXPECT_EQ(text["model_type"], written);
    EXPECT_FALSE(text.contains("kha"));
    EXPECT_EQ(parse(text), c) << read;
    ModelConfig mapped = c;
    mapped.knocks.all.v = KnockKind::mlp;
    const json own = json::parse(to_config_json(mapped));
    EXPECT_EQ(own["model_type"], "kha");
    EXPECT_EQ(own["kha"]["base"], written);
    EXPECT_EQ(parse(own), mapped) << read;
  }
}

TEST(FamilyConfig, DeepSeeksWordsAreOurLatentAttention) {
  const ModelConfig c = parse(latent());
  EXPECT_EQ(c.attention, "mla");
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rope_head_dim, 6);
  EXPECT_EQ(c.kv_latent, 20);
  EXPECT_EQ(c.latent_heads, 1);
  EXPECT_EQ(c.query_latent, 0);
  EXPECT_EQ(c.value_head_dim, 0);  // as wide as the keys
  EXPECT_EQ(c.rotary_layout, "half_split");
  EXPECT_EQ(c.latent_eps(), 1e-6);
  EXPECT_FALSE(c.plain());
  EXPECT_EQ(parse(latent({{"q_lora_rank", 28}})).query_latent, 28);
  json absent = latent();
  absent.erase("q_lora_rank");
  EXPECT_EQ(parse(absent).query_latent, 1536);  // the class default
  absent.erase("rope_interleave");
  EXPECT_EQ(parse(absent).rotary_layout, "interleaved");
  EXPECT_EQ(parse(latent({{"v_head_dim", 10}})).value_width(), 10);
}

TEST(FamilyConfig, TheLatentsEpsilonIsTheClasses) {
  const ModelConfig c = parse(latent({{"rms_norm_eps", 1e-5}}));
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.latent_eps(), 1e-6);
  const json own = json::parse(to_config_json(c));
  EXPECT_EQ(own["model_type"], "kha");
  EXPECT_EQ(parse(own).latent_eps(), 1e-6);
}

json routed(const std::string& type, const json& more = json::object()) {
  json config = latent({{"model_type", type},
                        {"first_k_dense_replace", 1},
                        {"n_routed_experts", 8},
                        {"num_experts_per_tok", 3},
                        {"moe_intermediate_size", 24}});
  if (type == "deepseek_v2") config.erase("rope_interleave");
  config.update(more);
  return config;
}

TEST(FamilyConfig, RoutersOfLatentAttentionHaveTheDefaultsOfTheirClass) {
  const json small{{"n_group", 4}, {"topk_group", 2}};
  const ExpertConfig third = parse(routed("deepseek_v3", small)).experts;
  EXPECT_EQ(third, (ExpertConfig{.count = 8,
                                 .active = 3,
                                 .width = 24,
                                 .shared = 1,
                                 .first_dense = 1,
                                 .router = "sigmoid",
                                 .normalise = true,
                                 .scaling = 2.5,
                                 .groups = 4,
                                 .open_groups = 2}));
  json second = routed("deepseek_v2", small);
  EXPECT_EQ(parse(second).experts, (ExpertConfig{.count = 8,
                                                 .active = 3,
                                                 .width = 24,
                                                 .shared = 2,
                                                 .first_dense = 1,
                                                 .router = "softmax",
                                                 .normalise = false,
                                                 .scaling = 1.0}));
  second["topk_method"] = "group_limited_greedy";
  EXPECT_EQ(parse(second).experts.groups, 4);
  EXPECT_EQ(parse(second).experts.open_groups, 2);
  // Not a word of experts counts where every layer is dense.
  EXPECT_FALSE(parse(routed("deepseek_v3", {{"first_k_dense_replace", 4}})).experts.any());
  for (const json& config : {routed("deepseek_v3", small), second}) {
    const ModelConfig c = parse(config);
    EXPECT_EQ(parse(json::parse(to_config_json(c))), c);
  }
}

TEST(FamilyConfig, RoutersThatAreNotComputedAreNamed) {
  const auto refused = [](const char* type, const json& more) {
    return refusal(routed(type, more));
  };
  const json groups{{"n_group", 4}, {"topk_group", 2}};
  const auto with = [&](const json& more) {
    json all = groups;
    all.update(more);
    return all;
  };
  EXPECT_THAT(refused("deepseek_v3", with({{"scoring_func", "softmax"}})),
              AllOf(HasSubstr("`scoring_func`"), HasSubstr("sigmoid")));
  EXPECT_THAT(refused("deepseek_v3", with({{"topk_method", "greedy"}})), HasSubstr("noaux_tc"));
  EXPECT_THAT(refused("deepseek_v3", with({{"moe_layer_freq", 2}})), HasSubstr("`moe_layer_freq`"));
  EXPECT_THAT(refused("deepseek_v2", {{"norm_topk_prob", true}}),
              HasSubstr("norm_topk_prob false"));
  EXPECT_THAT(refused("deepseek_v2", {{"topk_method", "noaux_tc"}}),
              HasSubstr("greedy or group_limited_greedy"));
  EXPECT_THAT(refused("deepseek_v3", {{"n_group", 3}, {"topk_group", 1}}),
              HasSubstr("a divisor of the 8 experts"));
  EXPECT_THAT(refused("deepseek_v3", {{"n_group", 8}, {"topk_group", 8}}),
              HasSubstr("a group's score is the sum of two"));
  EXPECT_THAT(refused("deepseek_v3", {{"n_group", 4}, {"topk_group", 1}}),
              AllOf(HasSubstr("`experts.active`"), HasSubstr("the experts of 1 groups")));
  EXPECT_THAT(refused("deepseek_v3", {{"n_group", 4}, {"topk_group", 5}}),
              HasSubstr("`experts.open_groups`"));
  json absent = routed("deepseek_v3", groups);
  absent.erase("n_routed_experts");
  EXPECT_THAT(refusal(absent), HasSubstr("`n_routed_experts` is missing"));
  EXPECT_THAT(refusal(latent({{"kv_lora_rank", nullptr}})), HasSubstr("`kv_lora_rank` is missing"));
}

// The published file, in its own spelling; its weights are quantised, and that is said.
TEST(FamilyConfig, AReleasedDeepSeekOpens) {
  json config = json::parse(R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3,
    "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
    "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
    "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
    "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
    "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
    "v_head_dim": 128, "vocab_size": 129280})");
  const ModelConfig c = parse(config);
  EXPECT_EQ(c.experts.groups, 8);
  EXPECT_EQ(rotary_amplitude(c.rotary_scaling), 1);
  EXPECT_GT(rotary_logit_scale(c.rotary_scaling), 1.8);
  config["quantization_config"] = {{"quant_method", "fp8"}, {"fmt", "e4m3"}};
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("quantised"), HasSubstr("fp8"),
                                     HasSubstr("take the release in bfloat16")));
}

TEST(FamilyConfig, ScalingIsReadInBothSpellingsAndWrittenBack) {
  const json kinds[] = {
      {{"rope_type", "linear"}, {"factor", 2.0}},
      {{"rope_type", "llama3"},
       {"factor", 8.0},
       {"low_freq_factor", 1.0},
       {"high_freq_factor", 4.0},
       {"original_max_position_embeddings", 64}},
      {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16.0}},
      {{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 0.7}, {"mscale_all_dim", 1.2}},
      {{"rope_type", "dynamic"}, {"factor", 2.0}},
      {{"rope_type", "longrope"},
       {"short_factor", {1.0, 1.0, 1.5, 1.5, 2.0, 2.0}},
       {"long_factor", {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}},
       {"original_max_position_embeddings", 64}}};
  for (const json& kind : kinds) {
    json old = kind;
    old["type"] = old["rope_type"];
    old.erase("rope_type");
    const ModelConfig c = parse(family("llama", {{"rope_scaling", old}, {"rope_theta", 5e5}}));
    json parameters = kind;
    parameters["rope_theta"] = 5e5;
    EXPECT_EQ(parse(family("llama", {{"rope_parameters", parameters}})), c);
    ModelConfig again = parse(json::parse(to_config_json(c)));
    EXPECT_EQ(rotary_amplitude(again.rotary_scaling), rotary_amplitude(c.rotary_scaling));
    again.rotary_scaling.attention_factor = c.rotary_scaling.attention_factor;
    EXPECT_EQ(again, c) << kind;
  }
}

// Phi's configs name it beside the object, and there it wins, as in transformers.
TEST(FamilyConfig, TheOriginalLengthMayStandOutside) {
  const json scaling{{"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 64}};
  const ModelConfig c = parse(
      family("llama", {{"original_max_position_embeddings", 128}, {"rope_scaling", scaling}}));
  EXPECT_EQ(c.rotary_scaling.original_max_position_embeddings, 128);
}

// A length that is not named is the model's own, as in transformers.
TEST(FamilyConfig, TheOriginalLengthDefaultsToTheContext) {
  const ModelConfig c =
      parse(family("qwen2", {{"max_position_embeddings", 512},
                             {"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}}));
  EXPECT_EQ(c.rotary_scaling.original_max_position_embeddings, 512);
}

TEST(FamilyConfig, WhatAScalingLacksIsNamed) {
  const auto scaled = [](const json& scaling) {
    return family("llama", {{"rope_scaling", scaling}});
  };
  EXPECT_THAT(refusal(scaled({{"rope_type", "llama3"}, {"factor", 8}})),
              HasSubstr("rotary scaling `llama3` lacks `low_freq_factor`"));
  EXPECT_THAT(refusal(scaled({{"rope_type", "yarn"}})), HasSubstr("lacks `factor`"));
  EXPECT_THAT(refusal(scaled({{"rope_type", "linear"}, {"factor", 0.5}})),
              AllOf(HasSubstr("`factor`"), HasSubstr("at least 1")));
  EXPECT_THAT(refusal(scaled({{"rope_type", "ntk"}})), HasSubstr("`dynamic` or `longrope`"));
  EXPECT_THAT(refusal(scaled({{"rope_type", "yarn"}, {"factor", 2}, {"mscale", -1.0}})),
              HasSubstr("`mscale`"));
  EXPECT_THAT(
      refusal(scaled(
          {{"rope_type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 64}})),
      HasSubstr("begins at max_position_embeddings"));
  EXPECT_THAT(refusal(scaled({{"rope_type", "longrope"}, {"short_factor", {1.0}}})),
              HasSubstr("lacks `long_factor`"));
  EXPECT_THAT(
      refusal(scaled({{"rope_type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}})),
      AllOf(HasSubstr("`short_factor`"), HasSubstr("6 numbers")));
  EXPECT_THAT(refusal(scaled({{"rope_type", "linear"}, {"factor", 2}, {"factr", 2}})),
              HasSubstr("did you mean `factor`"));
}

}  // namespace
}  // namespace kha
