// The accounts of the paper's mixtures (tables 3 and 5, and its main model), number by number.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "kha/core/counts.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

using enum KnockKind;

struct Mixture {
  const char* name;
  int64_t layers, width, expert_width, experts, active;
  int64_t total, total_active, body, body_active;
  int64_t attention, expert, router, embedding, layer;  // parts, in parameters
  int64_t linear_qkv, mlp_v, linear_v;                  // maps, in parameters
  const char *of_total, *of_active;                     // those of linear_qkv, in per cent
  // At 4096 and 8192 tokens: forward and training GFLOP a token, the maps' share of the forward
  // pass in per cent, training with maps.
  const char *base[2], *training[2];
  const char *linear_share[2], *mlp_share[2];
  const char *linear_training[2], *mlp_training[2];
  const char *linear_mflop, *mlp_mflop;
};

const Mixture mixtures[] = {{.name = "A0_44B_2_3B",
                             .layers = 12,
                             .width = 1152,
                             .expert_width = 768,
                             .experts = 64,
                             .active = 4,
                             .total = 2347826304,
                             .total_active = 436796544,
                             .body = 2166750336,
                             .body_active = 255720576,
                             .attention = 10616832,
                             .expert = 2654208,
                             .router = 73728,
                             .embedding = 181075968,
                             .layer = 180562432,
                             .linear_qkv = 589824,
                             .mlp_v = 589824,
                             .linear_v = 196608,
                             .of_total = "0.0251",
                             .of_active = "0.1350",
                             .base = {"1.2763", "1.6789"},
                             .training = {"3.8288", "5.0368"},
                             .linear_share = {"1.232", "0.937"},
                             .mlp_share = {"0.370", "0.281"},
                             .linear_training = {"3.8760", "5.0840"},
                             .mlp_training = {"3.8430", "5.0510"},
                             .linear_mflop = "15.73",
                             .mlp_mflop = "4.72"},
                            {.name = "A0_8B_6_6B",
                             .layers = 18,
                             .width = 1536,
                             .expert_width = 1152,
                             .experts = 64,
                             .active = 4,
                             .total = 6613364736,
                             .total_active = 880275456,
                             .body = 6371930112,
                             .body_active = 638840832,
                             .attention = 14155776,
                             .expert = 5308416,
                             .router = 98304,
                             .embedding = 241434624,
                             .layer = 353996032,
                             .linear_qkv = 884736,
                             .mlp_v = 884736,
                             .linear_v = 294912,
                             .of_total = "0.0134",
                             .of_active = "0.1005",
                             .base = {"2.3646", "2.9685"},
                             .training = {"7.0937", "8.9056"},
                             .linear_share = {"0.998", "0.795"},
                             .mlp_share = {"0.299", "0.238"},
                             .linear_training = {"7.1644", "8.9764"},
                             .mlp_training = {"7.1149", "8.9268"},
                             .linear_mflop = "23.59",
                             .mlp_mflop = "7.08"},
                            {.name = "A1_6B_14_6B",
                             .layers = 23,
                             .width = 2048,
                             .expert_width = 1536,
                             .experts = 64,
                             .active = 4,
                             .total = 14650674944,
                             .total_active = 1627361024,
                             .body = 14328762112,
                             .body_active = 1305448192,
                             .attention = 18874368,
                             .expert = 9437184,
                             .router = 131072,
                             .embedding = 321912832,
                             .layer = 622989568,
                             .linear_qkv = 1130496,
                             .mlp_v = 1130496,
                             .linear_v = 376832,
                             .of_total = "0.0077",
                             .of_active = "0.0695",
                             .base = {"4.0265", "4.7982"},
                             .training = {"12.0794", "14.3946"},
                             .linear_share = {"0.749", "0.628"},
                             .mlp_share = {"0.225", "0.188"},
                             .linear_training = {"12.1698", "14.4851"},
                             .mlp_training = {"12.1065", "14.4218"},
                             .linear_mflop = "30.15",
                             .mlp_mflop = "9.04"},
                            {.name = "A1_01B_6_1B",
                             .layers = 18,
                             .width = 2048,
                             .expert_width = 384,
                             .experts = 128,
                             .active = 8,
                             .total = 6102268416,
                             .total_active = 1006189056,
                             .body = 5780355584,
                             .body_active = 684276224,
                             .attention = 18874368,
                             .expert = 2359296,
                             .router = 262144,
                             .embedding = 321912832,
                             .layer = 321130752,
                             .linear_qkv = 884736,
                             .mlp_v = 884736,
                             .linear_v = 294912,
                             .of_total = "0.0145",
                             .of_active = "0.0879",
                             .base = {"2.6163", "3.2203"},
                             .training = {"7.8490", "9.6610"},
                             .linear_share = {"0.902", "0.733"},
                             .mlp_share = {"0.271", "0.220"},
                             .linear_training = {"7.9198", "9.7318"},
                             .mlp_training = {"7.8703", "9.6822"},
                             .linear_mflop = "23.59",
                             .mlp_mflop = "7.08"}};

ModelConfig config_of(const Mixture& m, const LayerKnocks& knocks) {
  ModelConfig c;
  c.vocab_size = 157184;
  c.hidden_size = m.width;
  c.num_hidden_layers = m.layers;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 4;
  c.head_dim = 128;
  c.experts.count = m.experts;
  c.experts.active = m.active;
  c.experts.width = m.expert_width;
  c.knocks.all = knocks;
  return c;
}

const LayerKnocks all_linear{linear, linear, linear}, value_mlp{none, none, mlp},
    value_linear{none, none, linear};

std::string fixed(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }
std::string percent(double part, double whole, int digits) {
  return fixed(100 * part / whole, digits);
}

class MixtureCounts : public testing::TestWithParam<Mixture> {};

TEST_P(MixtureCounts, ParametersAreThePapers) {
  const Mixture& m = GetParam();
  const ParameterCount count = count_parameters(config_of(m, {}));
  EXPECT_EQ(count.total, m.total);
  EXPECT_EQ(count.active, m.total_active);
  EXPECT_EQ(count.body(), m.body);
  EXPECT_EQ(count.active_body, m.body_active);
  EXPECT_EQ(count.embedding, m.embedding);
  EXPECT_EQ(count.experts, m.layers * m.experts * m.expert);
}

// The parts of one layer, by what the tensors are called.
TEST_P(MixtureCounts, PartsAreThePapers) {
  const Mixture& m = GetParam();
  std::map<std::string, int64_t> parts;
  for (const auto& spec : parameter_table(config_of(m, {}))) {
    if (spec.layer != 1 || !spec.trained) continue;
    parts["layer"] += spec.elements();
    const bool projection = spec.name.find("self_attn") != std::string::npos;
    if (projection && spec.role == Role::matrix) parts["attention"] += spec.elements();
    if (spec.name.find(".experts.7.") != std::string::npos) parts["expert"] += spec.elements();
    if (spec.name.ends_with(".mlp.gate.weight")) parts["router"] += spec.elements();
  }
  EXPECT_EQ(parts["attention"], m.attention);
  EXPECT_EQ(parts["expert"], m.expert);
  EXPECT_EQ(parts["router"], m.router);
  EXPECT_EQ(parts["layer"], m.layer);
}

TEST_P(MixtureCounts, MapsAreThePapers) {
  const Mixture& m = GetParam();
  const ParameterCount linear_count = count_parameters(config_of(m, all_linear));
  EXPECT_EQ(linear_count.knock, m.linear_qkv);
  EXPECT_EQ(linear_count.total, m.total + m.linear_qkv);
  EXPECT_EQ(linear_count.active, m.total_active + m.linear_qkv);
  EXPECT_EQ(count_parameters(config_of(m, value_mlp)).knock, m.mlp_v);
  EXPECT_EQ(count_parameters(config_of(m, value_linear)).knock, m.linear_v);
  EXPECT_EQ(percent(linear_count.knock, m.total, 4), m.of_total);
  EXPECT_EQ(percent(linear_count.knock, m.total_active, 4), m.of_active);
}

TEST_P(MixtureCounts, FlopsMatchToThePrintedDigits) {
  const Mixture& m = GetParam();
  for (int i = 0; i < 2; ++i) {
    const int64_t length = i == 0 ? 4096 : 8192;
    const FlopCount base = flops_per_token(config_of(m, {}), length);
    const FlopCount with_linear = flops_per_token(config_of(m, all_linear), length);
    const FlopCount with_mlp = flops_per_token(config_of(m, value_mlp), length);
    EXPECT_EQ(fixed(base.forward / 1e9, 4), m.base[i]) << length;
    EXPECT_EQ(fixed(base.training() / 1e9, 4), m.training[i]) << length;
    EXPECT_EQ(fixed(with_linear.knock / 1e6, 2), m.linear_mflop) << length;
    EXPECT_EQ(fixed(with_mlp.knock / 1e6, 2), m.mlp_mflop) << length;
    EXPECT_EQ(percent(with_linear.knock, base.forward, 3), m.linear_share[i]) << length;
    EXPECT_EQ(percent(with_mlp.knock, base.forward, 3), m.mlp_share[i]) << length;
    EXPECT_EQ(fixed(with_linear.training() / 1e9, 4), m.linear_training[i]) << length;
    EXPECT_EQ(fixed(with_mlp.training() / 1e9, 4), m.mlp_training[i]) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Paper, MixtureCounts, testing::ValuesIn(mixtures),
                         [](const auto& mixture) { return std::string(mixture.param.name); });

// Table 3: four shapes of the heads of one mixture.
TEST(MixtureShapes, ActiveParametersAreThePapers) {
  const std::tuple<int64_t, int64_t, int64_t> shapes[] = {
      {32, 4, 880275456}, {16, 16, 851963904}, {16, 8, 795340800}, {32, 1, 859041792}};
  for (const auto& [heads, kv_heads, active] : shapes) {
    ModelConfig c = config_of(mixtures[1], {});
    c.num_attention_heads = heads;
    c.num_key_value_heads = kv_heads;
    EXPECT_EQ(count_parameters(c).active, active) << heads << " heads, " << kv_heads;
  }
}

// A whole trillion tokens of the main model at 8192.
TEST(MixtureShapes, MainRunIsThePapers) {
  EXPECT_EQ(
      fmt::format("{:.3g}", flops_per_token(config_of(mixtures[3], {}), 8192).training() * 1e12),
      "9.66e+21");
}

// What plain export to Glm4-MoE costs: one more expert for every token in every layer.
TEST(MixtureShapes, AZeroSharedExpertCostsWhatAnExpertDoes) {
  const int64_t extra[] = {31850496, 95551488, 217055232, 42467328};
  const char* const of_active[] = {"7.29", "10.85", "13.34", "4.22"};
  const char* const of_total[] = {"1.36", "1.44", "1.48", "0.70"};
  for (size_t i = 0; i < std::size(mixtures); ++i) {
    ModelConfig c = config_of(mixtures[i], {});
    const ParameterCount before = count_parameters(c);
    c.experts.shared = 1;
    const ParameterCount after = count_parameters(c);
    EXPECT_EQ(after.total - before.total, extra[i]);
    EXPECT_EQ(after.active - before.active, extra[i]);
    EXPECT_EQ(percent(extra[i], before.active, 2), of_active[i]);
    EXPECT_EQ(percent(extra[i], before.total, 2), of_total[i]);
  }
}

// Of the layers in front the feed-forward of intermediate_size counts, and no expert.
TEST(MixtureShapes, DenseLayersCountAsDense) {
  ModelConfig c = config_of(mixtures[0], {});
  c.intermediate_size = 3072;
  const ParameterCount all = count_parameters(c);
  c.experts.first_dense = 2;
  const ParameterCount mixed = count_parameters(c);
  const int64_t dense = 3 * 1152 * 3072, expert = 2654208, router = 73728;
  EXPECT_EQ(mixed.total - all.total, 2 * (dense - 64 * expert - router));
  EXPECT_EQ(mixed.active - all.active, 2 * (dense - 4 * expert - router));
}

// A buffer is neither a parameter nor work.
TEST(MixtureShapes, SelectionBiasesAreNotCounted) {
  ModelConfig c = config_of(mixtures[0], {});
  const ParameterCount sigmoid = count_parameters(c);
  const double flops = flops_per_token(c, 64).forward;
  c.experts.router = "softmax";
  EXPECT_EQ(count_parameters(c).total, sigmoid.total);
  EXPECT_EQ(flops_per_token(c, 64).forward, flops);
}

// An untied head is multiplied with, its embedding only looked up.
TEST(MixtureShapes, ActiveCountsTheEmbeddingOnce) {
  ModelConfig c = config_of(mixtures[0], {});
  const ParameterCount tied = count_parameters(c);
  c.tie_word_embeddings = false;
  EXPECT_EQ(count_parameters(c).active, tied.active);
  EXPECT_EQ(count_parameters(c).body(), tied.body());
}

}  // namespace
}  // namespace kha
