#include "kha/core/counts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kha {
namespace {

using enum KnockKind;

// The paper's three dense models (table 5), with the vocabulary that gives its totals.
struct Dense {
  const char* name;
  int64_t layers, width, feed_forward;
  int64_t parameters, without_embedding, knock, knock_v_linear;
  const char* base[2];          // forward GFLOP a token at 4096 and 8192 tokens
  const char* training[2];      // three times that
  const char* linear_share[2];  // the maps' share of the base, in per cent
  const char* mlp_share[2];
  const char* linear_training[2];
  const char* mlp_training[2];
  const char* linear_mflop;
  const char* mlp_mflop;
};

const Dense dense_models[] = {{"0.61B",
                               24,
                               1024,
                               3072,
                               613997568,
                               453041152,
                               1179648,
                               393216,
                               {"2.0334", "2.8387"},
                               {"6.1002", "8.5161"},
                               {"1.547", "1.108"},
                               {"0.464", "0.332"},
                               {"6.1945", "8.6104"},
                               {"6.1285", "8.5444"},
                               "31.46",
                               "9.44"},
                              {"1.68B",
                               24,
                               2048,
                               6144,
                               1680973824,
                               1359060992,
                               1179648,
                               393216,
                               {"4.1672", "4.9725"},
                               {"12.5017", "14.9176"},
                               {"0.755", "0.633"},
                               {"0.226", "0.190"},
                               {"12.5961", "15.0120"},
                               {"12.5300", "14.9459"},
                               "31.46",
                               "9.44"},
                              {"3.94B",
                               36,
                               2560,
                               9728,
                               3941531136,
                               3539140096,
                               1769472,
                               589824,
                               {"9.0909", "10.2989"},
                               {"27.2728", "30.8967"},
                               {"0.519", "0.458"},
                               {"0.156", "0.137"},
                               {"27.4143", "31.0382"},
                               {"27.3152", "30.9391"},
                               "47.19",
                               "14.16"}};

ModelConfig config_of(const Dense& model, const LayerKnocks& knocks) {
  ModelConfig c;
  c.vocab_size = 157184;
  c.hidden_size = model.width;
  c.intermediate_size = model.feed_forward;
  c.num_hidden_layers = model.layers;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 4;
  c.head_dim = 128;
  c.knocks.all = knocks;
  return c;
}

std::string giga(double flops) { return fmt::format("{:.4f}", flops / 1e9); }
std::string mega(double flops) { return fmt::format("{:.2f}", flops / 1e6); }
std::string percent(double share) { return fmt::format("{:.3f}", 100 * share); }

class DenseCounts : public testing::TestWithParam<Dense> {};

TEST_P(DenseCounts, ParametersAreThePapers) {
  const Dense& model = GetParam();
  const ParameterCount plain = count_parameters(config_of(model, {}));
  EXPECT_EQ(plain.total, model.parameters);
  EXPECT_EQ(plain.total - plain.embedding, model.without_embedding);
  EXPECT_EQ(plain.knock, 0);
}

TEST_P(DenseCounts, MapsAddThreeMatricesALayer) {
  const Dense& model = GetParam();
  for (const LayerKnocks& knocks : {LayerKnocks{linear, linear, linear}, {none, none, mlp}}) {
    const ParameterCount count = count_parameters(config_of(model, knocks));
    EXPECT_EQ(count.knock, model.knock);
    EXPECT_EQ(count.total, model.parameters + model.knock);
  }
  EXPECT_EQ(count_parameters(config_of(model, {none, none, linear})).knock, model.knock_v_linear);
}

TEST_P(DenseCounts, FlopsMatchToThePrintedDigits) {
  const Dense& model = GetParam();
  for (int i = 0; i < 2; ++i) {
    const int64_t length = i == 0 ? 4096 : 8192;
    const FlopCount base = flops_per_token(config_of(model, {}), length);
    const FlopCount with_linear =
        flops_per_token(config_of(model, {linear, linear, linear}), length);
    const FlopCount with_mlp = flops_per_token(config_of(model, {none, none, mlp}), length);
    EXPECT_EQ(giga(base.forward), model.base[i]) << length;
    EXPECT_EQ(giga(base.training()), model.training[i]) << length;
    EXPECT_EQ(mega(with_linear.knock), model.linear_mflop) << length;
    EXPECT_EQ(mega(with_mlp.knock), model.mlp_mflop) << length;
    EXPECT_EQ(percent(with_linear.knock / base.forward), model.linear_share[i]) << length;
    EXPECT_EQ(percent(with_mlp.knock / base.forward), model.mlp_share[i]) << length;
    EXPECT_EQ(giga(with_linear.training()), model.linear_training[i]) << length;
    EXPECT_EQ(giga(with_mlp.training()), model.mlp_training[i]) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Paper, DenseCounts, testing::ValuesIn(dense_models),
                         [](const auto& model) {
                           std::string name = model.param.name;
                           name[1] = '_';
                           return name;
                         });

TEST(Counts, UntiedEmbeddingCountsTwice) {
  ModelConfig config;
  const ParameterCount tied = count_parameters(config);
  config.tie_word_embeddings = false;
  const ParameterCount untied = count_parameters(config);
  EXPECT_EQ(untied.embedding, 2 * tied.embedding);
  EXPECT_EQ(untied.total, tied.total + config.vocab_size * config.hidden_size);
  EXPECT_EQ(flops_per_token(config, 64).forward, flops_per_token(ModelConfig{}, 64).forward);
}

TEST(Counts, MapsOfSingleLayersCountOnce) {
  ModelConfig config;
  config.knocks.layers[2] = {none, none, mlp};
  EXPECT_EQ(count_parameters(config).knock, 3 * config.head_dim * config.head_dim);
  EXPECT_EQ(flops_per_token(config, 64).knock,
            6.0 * config.num_key_value_heads * config.head_dim * config.head_dim);
}

// T = 2048, d = 1024, 32 heads: the two shares that the paper prints.
TEST(Counts, PaperShares) {
  const PaperFlops flops = paper_flops(2048, 1024, 32);
  const double layer = flops.attention + flops.feed_forward;
  EXPECT_EQ(fmt::format("{:.2f}", 100 * flops.knock / layer), "0.55");
  EXPECT_EQ(fmt::format("{:.2f}", 100 * flops.knock / flops.attention), "1.17");
}

}  // namespace
}  // namespace kha
