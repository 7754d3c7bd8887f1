// A mixture of experts in config.json, in the parameter table and in a run's file.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/thrown.h"
#include "kha/core/model_config.h"
#include "kha/core/parameter_table.h"
#include "kha/core/run_config.h"

namespace kha {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Shape = std::vector<int64_t>;

json sizes() {
  return json::parse(R"({"vocab_size": 300, "hidden_size": 48, "intermediate_size": 96,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24})");
}

json qwen() {
  json config = sizes();
  config.update({{"model_type", "qwen3_moe"}, {"num_experts", 8}});
  return config;
}

// As Glm4-MoE's class needs it to be what this decoder computes.
json glm() {
  json config = sizes();
  config.update({{"model_type", "glm4_moe"},
                 {"n_routed_experts", 8},
                 {"use_qk_norm", true},
                 {"partial_rotary_factor", 1.0}});
  return config;
}

json with(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}

ModelConfig parse(const json& config) { return parse_model_config(config.dump(), "m/config.json"); }
std::string refusal(const json& config) {
  return thrown([&] { parse(config); });
}

TEST(ExpertConfig, QwenKeysAreRead) {
  const ModelConfig c = parse(qwen());
  EXPECT_EQ(c.experts,
            (ExpertConfig{
                .count = 8, .active = 2, .width = 24, .router = "softmax", .normalise = false}));
  EXPECT_TRUE(parse(with(qwen(), "norm_topk_prob", true)).experts.normalise);
  EXPECT_TRUE(c.plain());
  json alias = qwen();
  alias.erase("num_experts");
  alias["num_local_experts"] = 8;
  EXPECT_EQ(parse(alias), c);
  alias["num_experts"] = 16;
  EXPECT_THAT(refusal(alias), AllOf(HasSubstr("`num_experts` and `num_local_experts` contradict"),
                                    HasSubstr("16 and 8")));
}

// Whether the weights are normalised is the default of each family where the key is missing.
TEST(ExpertConfig, GlmKeysAreRead) {
  const ModelConfig c = parse(glm());
  EXPECT_EQ(c.experts,
            (ExpertConfig{.count = 8, .active = 2, .width = 24, .shared = 1, .first_dense = 1}));
  EXPECT_TRUE(c.experts.normalise);
  EXPECT_FALSE(parse(with(glm(), "norm_topk_prob", false)).experts.normalise);
  EXPECT_EQ(parse(with(glm(), "routed_scaling_factor", 2.5)).experts.scaling, 2.5);
  EXPECT_EQ(parse(with(glm(), "first_k_dense_replace", 0)).experts.first_dense, 0);
  EXPECT_EQ(parse(with(glm(), "n_shared_experts", 2)).experts.shared, 2);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(parse(qwen()).rms_norm_eps, 1e-6);
}

// Among the rotary parameters, beside them, or half, as its class has it where neither is there.
TEST(ExpertConfig, GlmsShareOfTurnedChannelsIsRead) {
  const int64_t width = parse(glm()).head_dim;
  EXPECT_EQ(parse(glm()).rope_head_dim, 0);
  json config = glm();
  config.erase("partial_rotary_factor");
  const ModelConfig half = parse(config);
  EXPECT_EQ(half.rope_head_dim, width / 2);
  EXPECT_TRUE(half.plain());
  config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
  EXPECT_EQ(parse(config), parse(glm()));
  config["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(parse(config), parse(glm()));
  config["rope_parameters"]["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(parse(config), half);
  const json written = json::parse(to_config_json(half));
  EXPECT_EQ(written["partial_rotary_factor"], 0.5);
  EXPECT_EQ(written["rope_parameters"]["partial_rotary_factor"], 0.5);
  EXPECT_EQ(parse(written), half);
}

TEST(ExpertConfig, SharesOfTurnedChannelsThatAreNoneAreRefused) {
  for (const double share : {0.0, -0.5, 1.5, 1e300, 0.1}) {
    EXPECT_THAT(refusal(with(glm(), "partial_rotary_factor", share)),
                AllOf(HasSubstr("`partial_rotary_factor` is no share of a head's channels"),
                      HasSubstr("an even number of the")))
        << share;
  }
}

// A quotient that falls short by a rounding would turn a channel less, which is no pair.
TEST(ExpertConfig, EverySharesChannelsAreThoseThatWereWritten) {
  ModelConfig c = parse(with(glm(), "partial_rotary_factor", 0.5));
  for (c.head_dim = 4; c.head_dim <= 256; c.head_dim += 2) {
    for (c.rope_head_dim = 2; c.rope_head_dim < c.head_dim; c.rope_head_dim += 2) {
      const json written = json::parse(to_config_json(c));
      const auto share = written["partial_rotary_factor"].get<double>();
      ASSERT_EQ(static_cast<int64_t>(static_cast<double>(c.head_dim) * share), c.rope_head_dim)
          << c.head_dim;
      ASSERT_EQ(parse(written), c);
    }
  }
}

TEST(ExpertConfig, OtherAttentionsTurnWhatTheirSizesSay) {
  ModelConfig c = parse(glm());
  c.attention = "gta";
  c.rope_head_dim = 2;
  json written = json::parse(to_config_json(c));
  EXPECT_EQ(parse(written), c);
  for (json* place : {&written, &written["rope_parameters"]})
    (*place)["partial_rotary_factor"] = 0.5;
  EXPECT_THAT(refusal(written), HasSubstr("`partial_rotary_factor` contradicts the object `kha`"));
}

// With a map the object `kha` says it too, and both must agree.
TEST(ExpertConfig, ModelsWithMapsKeepTheShareOfTurnedChannels) {
  ModelConfig c = parse(with(glm(), "partial_rotary_factor", 0.5));
  c.knocks.all.v = KnockKind::linear;
  json written = json::parse(to_config_json(c));
  EXPECT_EQ(written["kha"]["rope_head_dim"], c.rope_head_dim);
  EXPECT_EQ(parse(written), c);
  for (json* place : {&written, &written["rope_parameters"]})
    (*place)["partial_rotary_factor"] = 1.0;
  EXPECT_THAT(refusal(written), HasSubstr("`partial_rotary_factor` contradicts the object `kha`"));
}

TEST(ExpertConfig, WhatGlmWouldComputeOtherwiseIsRefused) {
  EXPECT_THAT(refusal(with(glm(), "n_group", 3)), HasSubstr("a divisor of the 8 experts"));
  EXPECT_THAT(refusal(with(glm(), "topk_group", 2)), HasSubstr("`experts.open_groups`"));
}

// Heads without norms are the class default; its output projection never has a bias.
TEST(ExpertConfig, GlmsNormsAndBiasesAreRead) {
  json config = glm();
  config.erase("use_qk_norm");
  config["attention_bias"] = true;
  const ModelConfig c = parse(config);
  EXPECT_FALSE(c.qk_norm || c.output_bias);
  EXPECT_TRUE(c.attention_bias && c.plain());
  EXPECT_EQ(parse(with(with(glm(), "n_group", 4), "topk_group", 2)).experts.open_groups, 2);
  EXPECT_EQ(parse(json::parse(to_config_json(c))), c);
  ModelConfig mapped = c;
  mapped.knocks.all.v = KnockKind::mlp;
  EXPECT_EQ(parse(json::parse(to_config_json(mapped))), mapped);
}

// transformers: layer i has experts when (i + 1) % step == 0 and mlp_only_layers does not name it.
TEST(ExpertConfig, DenseLayersStandInFrontOrAreRefused) {
  EXPECT_EQ(parse(qwen()).experts.first_dense, 0);
  EXPECT_EQ(parse(with(qwen(), "mlp_only_layers", {0, 1})).experts.first_dense, 2);
  EXPECT_EQ(parse(with(qwen(), "mlp_only_layers", {2, 1, 0, 3})).experts.first_dense, 4);
  EXPECT_EQ(parse(with(qwen(), "decoder_sparse_step", 4)).experts.first_dense, 3);
  EXPECT_THAT(refusal(with(qwen(), "decoder_sparse_step", 2)),
              AllOf(HasSubstr("dense layers behind layers with experts"), HasSubstr("layer 2")));
  EXPECT_THAT(refusal(with(qwen(), "mlp_only_layers", {0, 3})),
              AllOf(HasSubstr("dense layers behind"), HasSubstr("layer 3")));
  EXPECT_THAT(refusal(with(qwen(), "mlp_only_layers", {4})),
              AllOf(HasSubstr("names a layer that is not there"), HasSubstr("0 to 3")));
  EXPECT_THAT(refusal(with(qwen(), "mlp_only_layers", {-1})), HasSubstr("not there"));
  EXPECT_THAT(refusal(with(qwen(), "mlp_only_layers", {"0"})), HasSubstr("wrong type"));
  EXPECT_THAT(refusal(with(qwen(), "decoder_sparse_step", 0)), HasSubstr("decoder_sparse_step"));
}

TEST(ExpertConfig, MissingAndHostileSizesAreRefused) {
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    json config = qwen();
    config.erase(key);
    EXPECT_THAT(refusal(config), HasSubstr("`" + std::string(key) + "` is missing"));
    for (const json& value : std::vector<json>{-1, INT64_MAX, INT64_MIN}) {
      EXPECT_THAT(refusal(with(qwen(), key, value)), HasSubstr("does not make a model")) << key;
    }
  }
  EXPECT_THAT(refusal(with(qwen(), "num_experts_per_tok", 9)),
              AllOf(HasSubstr("`experts.active`"), HasSubstr("from 1 to 8"), HasSubstr("9")));
  EXPECT_THAT(refusal(with(qwen(), "num_experts_per_tok", 0)), HasSubstr("`experts.active`"));
  EXPECT_THAT(refusal(with(glm(), "first_k_dense_replace", 5)), HasSubstr("`experts.first_dense`"));
  EXPECT_THAT(refusal(with(glm(), "routed_scaling_factor", 0.0)), HasSubstr("`experts.scaling`"));
  EXPECT_THAT(refusal(with(glm(), "n_shared_experts", 1 << 17)), HasSubstr("does not make"));
  json huge = with(with(qwen(), "num_experts", 1 << 16), "moe_intermediate_size", 1 << 24);
  EXPECT_THAT(refusal(with(huge, "hidden_size", 1 << 24)), HasSubstr("fewer than 2^52"));
}

ModelConfig small() {
  ModelConfig c = parse(qwen());
  c.experts.normalise = true;
  return c;
}

void expect_written(const ModelConfig& c, const char* type, const char* base) {
  const std::string text = to_config_json(c);
  EXPECT_EQ(parse_model_config(text, "written"), c) << text;
  const json written = json::parse(text);
  EXPECT_EQ(written["model_type"], type) << text;
  EXPECT_EQ(written.contains("kha"), std::string(type) == "kha") << text;
  EXPECT_EQ(written.contains("kha") ? written["kha"]["base"].get<std::string>() : "", base) << text;
}

// Only what a class of transformers computes exactly carries its type.
TEST(ExpertConfig, WrittenTextReadsBackEqual) {
  ModelConfig c = small();
  expect_written(c, "qwen3_moe", "");
  c.experts.first_dense = 2;
  c.attention_bias = true;
  expect_written(c, "qwen3_moe", "");
  c.experts.scaling = 2;
  expect_written(c, "kha", "qwen3_moe");
  c.experts.shared = 2;
  expect_written(c, "kha", "qwen3_moe");
  c = small();
  c.knocks.all.v = KnockKind::mlp;
  expect_written(c, "kha", "qwen3_moe");
  c = small();
  c.experts.router = "sigmoid";
  expect_written(c, "kha", "glm4_moe");  // the class always has a shared expert
  c.experts.shared = 1;
  expect_written(c, "glm4_moe", "");
  c.experts.scaling = 1.5;
  c.experts.normalise = false;
  c.experts.first_dense = 4;
  expect_written(c, "glm4_moe", "");
  c.experts.groups = 4;
  c.experts.open_groups = 2;
  expect_written(c, "glm4_moe", "");
  c.attention_bias = true;  // its output projection has none
  expect_written(c, "kha", "glm4_moe");
  c.output_bias = false;
  expect_written(c, "glm4_moe", "");
  c = small();
  c.experts.groups = 2;
  expect_written(c, "kha", "qwen3_moe");
}

TEST(ExpertConfig, PlainTextNamesEveryKeyOfTheClass) {
  const json qwen3 = json::parse(to_config_json(small()));
  EXPECT_EQ(qwen3["architectures"], json::array({"Qwen3MoeForCausalLM"}));
  EXPECT_EQ(qwen3["num_experts"], 8);
  EXPECT_EQ(qwen3["decoder_sparse_step"], 1);
  EXPECT_EQ(qwen3["mlp_only_layers"], json::array());
  EXPECT_EQ(qwen3["norm_topk_prob"], true);
  EXPECT_FALSE(qwen3.contains("n_shared_experts"));
  ModelConfig c = small();
  c.experts.router = "sigmoid";
  c.experts.shared = 1;
  const json glm4 = json::parse(to_config_json(c));
  EXPECT_EQ(glm4["architectures"], json::array({"Glm4MoeForCausalLM"}));
  const json expected = json::parse(R"({"n_routed_experts": 8, "n_shared_experts": 1,
      "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 1, "topk_group": 1,
      "first_k_dense_replace": 0, "norm_topk_prob": true, "routed_scaling_factor": 1.0,
      "use_qk_norm": true, "partial_rotary_factor": 1.0})");
  for (const auto& [key, value] : expected.items()) {
    EXPECT_EQ(glm4.at(key), value) << key;
  }
  EXPECT_EQ(glm4["rope_parameters"]["partial_rotary_factor"], 1.0);
}

std::vector<std::string> feed_forward_names(const ModelConfig& c, int64_t layer) {
  std::vector<std::string> names;
  const std::string prefix = feed_forward_prefix(layer);
  for (const auto& spec : parameter_table(c)) {
    if (spec.name.starts_with(prefix)) names.push_back(spec.name.substr(prefix.size()));
  }
  return names;
}

TEST(ExpertTable, ATensorOfEachExpert) {
  ModelConfig c = small();
  c.experts = {.count = 2, .active = 1, .width = 24, .shared = 3, .first_dense = 1};
  using testing::ElementsAre;
  EXPECT_THAT(feed_forward_names(c, 0),
              ElementsAre("gate_proj.weight", "up_proj.weight", "down_proj.weight"));
  EXPECT_THAT(
      feed_forward_names(c, 1),
      ElementsAre("gate.weight", "gate.e_score_correction_bias", "experts.0.gate_proj.weight",
                  "experts.0.up_proj.weight", "experts.0.down_proj.weight",
                  "experts.1.gate_proj.weight", "experts.1.up_proj.weight",
                  "experts.1.down_proj.weight", "shared_experts.gate_proj.weight",
                  "shared_experts.up_proj.weight", "shared_experts.down_proj.weight"));
  c.experts.router = "softmax";
  EXPECT_THAT(feed_forward_names(c, 1), testing::Not(testing::Contains(HasSubstr("bias"))));
}

TEST(ExpertTable, ShapesRolesAndNumbers) {
  ModelConfig c = small();
  c.experts = {.count = 2, .active = 1, .width = 24, .shared = 3};
  std::map<std::string, ParameterSpec> table;
  for (const auto& spec : parameter_table(c)) table.emplace(spec.name, spec);
  const auto& at = [&](const std::string& name) { return table.at(feed_forward_prefix(2) + name); };
  EXPECT_EQ(at("gate.weight").shape, (Shape{2, 48}));
  EXPECT_EQ(at("gate.weight").role, Role::matrix);
  EXPECT_EQ(at("experts.1.gate_proj.weight").shape, (Shape{24, 48}));
  EXPECT_EQ(at("experts.1.down_proj.weight").shape, (Shape{48, 24}));
  EXPECT_EQ(at("experts.1.up_proj.weight").role, Role::expert);
  EXPECT_EQ(at("experts.1.up_proj.weight").expert, 1);
  EXPECT_EQ(at("shared_experts.up_proj.weight").shape, (Shape{72, 48}));
  EXPECT_EQ(at("shared_experts.up_proj.weight").expert, -1);
  EXPECT_EQ(at("shared_experts.up_proj.weight").role, Role::expert);
  const ParameterSpec bias = at("gate.e_score_correction_bias");
  EXPECT_EQ(bias.shape, (Shape{2}));
  EXPECT_EQ(bias.init, Init::zeros);
  for (const auto& [name, spec] : table)
    EXPECT_EQ(spec.trained, !name.ends_with("correction_bias"));
}

RunConfig run(const std::string& text) { return parse_run_config(text, "run.toml", {}); }

TEST(ExpertRun, KeysAreReadAndPrinted) {
  const RunConfig c =
      run("[model.experts]\ncount = 8\nactive = 2\nwidth = 24\nshared = 1\nfirst_dense = 1\n"
          "router = \"softmax\"\nnormalise = false\nscaling = 2.0\n"
          "[experts]\nbalance = \"sign\"\nbalance_rate = 0.01\nbalance_loss = 0.1\n"
          "router_z_loss = 1e-6\n[train]\nz_loss = 1e-5\n");
  EXPECT_EQ(c.model.experts, (ExpertConfig{8, 2, 24, 1, 1, "softmax", false, 2.0}));
  EXPECT_EQ(c.experts.balance, "sign");
  EXPECT_EQ(c.experts.balance_rate, 0.01);
  EXPECT_EQ(c.experts.balance_loss, 0.1);
  EXPECT_EQ(c.experts.router_z_loss, 1e-6);
  EXPECT_EQ(c.train.z_loss, 1e-5);
  const RunConfig again = run(to_toml(c));
  EXPECT_TRUE(changed_fields(c, again).empty());
  EXPECT_EQ(again.model, c.model);
  ASSERT_FALSE(changed_fields(c, run("")).empty());
  EXPECT_EQ(changed_fields(c, run(""))[0].on_resume, OnResume::refused);
}

TEST(ExpertRun, WrongKeysAreRefused) {
  const auto refused = [](const std::string& text) { return thrown([&] { run(text); }); };
  EXPECT_THAT(refused("[model.experts]\nactive = 2\n"),
              AllOf(HasSubstr("`experts.active` is given, but the model has no experts"),
                    HasSubstr("set experts.count")));
  EXPECT_THAT(refused("[model.experts]\ncount = 4\nactive = 5\nwidth = 8\n"),
              AllOf(HasSubstr("`experts.active`"), HasSubstr("from 1 to 4"), HasSubstr("5")));
  EXPECT_THAT(refused("[model.experts]\ncount = 4\nactive = 2\n"), HasSubstr("`experts.width`"));
  EXPECT_THAT(refused("[model.experts]\nrouter = \"sigmod\"\n"),
              HasSubstr("did you mean `sigmoid`?"));
  EXPECT_THAT(refused("[experts]\nbalance = \"none at all\"\n"), HasSubstr("experts.balance"));
  EXPECT_THAT(refused("[experts]\nrate = 1\n"), HasSubstr("unknown key `experts.rate`"));
}

}  // namespace
}  // namespace kha
