#include "kha/core/parameter_table.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace kha {
namespace {

using enum KnockKind;
using Shape = std::vector<int64_t>;

// H x D is not the width, and the KV heads are fewer: no two sizes are equal.
ModelConfig small() {
  ModelConfig c;
  c.vocab_size = 300;
  c.hidden_size = 48;
  c.intermediate_size = 80;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 16;
  return c;
}

std::map<std::string, ParameterSpec> by_name(const ModelConfig& config,
                                             KnockStart start = KnockStart::identity) {
  std::map<std::string, ParameterSpec> table;
  for (const auto& spec : parameter_table(config, start)) {
    EXPECT_TRUE(table.emplace(spec.name, spec).second) << spec.name << " stands twice";
  }
  return table;
}

TEST(ParameterTable, PlainTiedModelHasExactlyThePublicNames) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_table(small())) {
    if (spec.layer <= 0) names.push_back(spec.name);
  }
  const std::string layer = "model.layers.0.";
  EXPECT_THAT(names, testing::ElementsAre(
                         "model.embed_tokens.weight", layer + "input_layernorm.weight",
                         layer + "self_attn.q_proj.weight", layer + "self_attn.k_proj.weight",
                         layer + "self_attn.v_proj.weight", layer + "self_attn.q_norm.weight",
                         layer + "self_attn.k_norm.weight", layer + "self_attn.o_proj.weight",
                         layer + "post_attention_layernorm.weight", layer + "mlp.gate_proj.weight",
                         layer + "mlp.up_proj.weight", layer + "mlp.down_proj.weight",
                         "model.norm.weight"));
}

TEST(ParameterTable, ShapesAreOutByInAndFollowTheHeadWidth) {
  const auto table = by_name(small());
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(table.at("model.embed_tokens.weight").shape, (Shape{300, 48}));
  EXPECT_EQ(table.at(layer + "self_attn.q_proj.weight").shape, (Shape{64, 48}));
  EXPECT_EQ(table.at(layer + "self_attn.k_proj.weight").shape, (Shape{32, 48}));
  EXPECT_EQ(table.at(layer + "self_attn.v_proj.weight").shape, (Shape{32, 48}));
  EXPECT_EQ(table.at(layer + "self_attn.o_proj.weight").shape, (Shape{48, 64}));
  EXPECT_EQ(table.at(layer + "self_attn.q_norm.weight").shape, (Shape{16}));
  EXPECT_EQ(table.at(layer + "mlp.gate_proj.weight").shape, (Shape{80, 48}));
  EXPECT_EQ(table.at(layer + "mlp.down_proj.weight").shape, (Shape{48, 80}));
  EXPECT_EQ(table.at(layer + "mlp.down_proj.weight").elements(), 48 * 80);
}

TEST(ParameterTable, HeadStandsOnlyInAnUntiedModel) {
  ModelConfig config = small();
  EXPECT_EQ(by_name(config).count("lm_head.weight"), 0u);
  config.tie_word_embeddings = false;
  const auto head = by_name(config).at("lm_head.weight");
  EXPECT_EQ(head.shape, (Shape{300, 48}));
  EXPECT_EQ(head.role, Role::head);
  EXPECT_EQ(parameter_table(config).back().name, "lm_head.weight");
}

TEST(ParameterTable, BiasesStandOnTheFourAttentionProjections) {
  ModelConfig config = small();
  config.attention_bias = true;
  std::map<std::string, Shape> biases;
  for (const auto& [name, spec] : by_name(config)) {
    if (spec.role != Role::bias) continue;
    EXPECT_EQ(spec.init, Init::zeros) << name;
    if (spec.layer == 0) biases[name] = spec.shape;
  }
  const std::string prefix = attention_prefix(0);
  EXPECT_EQ(biases, (std::map<std::string, Shape>{{prefix + "q_proj.bias", {64}},
                                                  {prefix + "k_proj.bias", {32}},
                                                  {prefix + "v_proj.bias", {32}},
                                                  {prefix + "o_proj.bias", {48}}}));
}

TEST(ParameterTable, MapsAreSquareAndStartAsTheIdentity) {
  ModelConfig config = small();
  config.knocks.all = {linear, mlp, gate};
  const auto table = by_name(config);
  const std::map<std::string, Init> expected{
      {"model.layers.0.self_attn.knock_q.weight", Init::identity},
      {"model.layers.0.self_attn.knock_k.up.weight", Init::identity},
      {"model.layers.0.self_attn.knock_k.gate.weight", Init::zeros},
      {"model.layers.0.self_attn.knock_k.down.weight", Init::identity},
      {"model.layers.0.self_attn.knock_v.gate.weight", Init::zeros}};
  size_t knocks = 0;
  for (const auto& [name, spec] : table) knocks += spec.role == Role::knock;
  EXPECT_EQ(knocks, 2 * expected.size());
  for (const auto& [name, init] : expected) {
    EXPECT_EQ(table.at(name).shape, (Shape{16, 16})) << name;
    EXPECT_EQ(table.at(name).init, init) << name;
    EXPECT_EQ(table.at(name).layer, 0) << name;
  }
}

TEST(ParameterTable, RandomStartTouchesOnlyTheMaps) {
  ModelConfig config = small();
  config.knocks.all = {linear, mlp, gate};
  const auto identity = by_name(config), random = by_name(config, KnockStart::random);
  ASSERT_EQ(identity.size(), random.size());
  for (const auto& [name, spec] : random) {
    EXPECT_EQ(spec.init, spec.role == Role::knock ? Init::normal : identity.at(name).init) << name;
  }
}

TEST(ParameterTable, LayersOfTheirOwnHaveTheirOwnMaps) {
  ModelConfig config = small();
  config.knocks = {.all = {none, none, mlp}, .layers = {{1, {linear, none, none}}}};
  const auto table = by_name(config);
  EXPECT_EQ(table.count("model.layers.0.self_attn.knock_v.up.weight"), 1u);
  EXPECT_EQ(table.count("model.layers.1.self_attn.knock_v.up.weight"), 0u);
  EXPECT_EQ(table.count("model.layers.1.self_attn.knock_q.weight"), 1u);
  EXPECT_EQ(table.count("model.layers.0.self_attn.knock_q.weight"), 0u);
}

TEST(ParameterTable, RolesFollowTheTensors) {
  ModelConfig config = small();
  config.attention_bias = true;
  for (const auto& [name, spec] : by_name(config)) {
    const bool norm = name.find("norm") != std::string::npos;
    EXPECT_EQ(spec.role == Role::norm, norm) << name;
    EXPECT_EQ(spec.init == Init::ones, norm) << name;
  }
  std::set<std::string> words;
  for (const Role role : all_roles) words.insert(to_string(role));
  EXPECT_EQ(words.size(), std::size(all_roles));
}

}  // namespace
}  // namespace kha
