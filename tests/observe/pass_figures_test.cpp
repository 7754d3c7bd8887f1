// Figures of attention and routers against the same numbers written out.
#include "observe/pass_figures.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/decoder.h"
#include "model/initialise.h"

namespace kha {
namespace {

ModelConfig mixture(const std::string& router) {
  ModelConfig c;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.initializer_range = 0.4;
  c.experts = {.count = 5, .active = 2, .width = 8, .first_dense = 1};
  c.experts.router = router;
  return c;
}

// Two rows of eight; the second ends in three tokens of padding.
Batch two_rows() {
  Batch b;
  b.rows = 2;
  b.context = 8;
  for (int64_t i = 0; i < 16; ++i) {
    b.inputs.push_back((i * i * 7 + 3) % 256);
    b.documents.push_back(i < 13 ? 0 : -1);
  }
  return b;
}

Parameters in_double(const ModelConfig& c) {
  return initialise(c, KnockStart::identity, 3).cast(at::kDouble);
}

double number(const at::Tensor& x) { return x.item<double>(); }

TEST(PassFigures, EvennessOfShares) {
  EXPECT_DOUBLE_EQ(evenness({0.25, 0.25, 0.25, 0.25}), 1);
  EXPECT_DOUBLE_EQ(evenness({1, 0, 0}), 0);
  EXPECT_NEAR(evenness({0.5, 0.5, 0, 0}), 0.5, 1e-15);
  EXPECT_DOUBLE_EQ(evenness({1}), 1);
}

// Queries and keys zero: every query weighs what it sees evenly, so its entropy is the log of how
// many that are.
TEST(PassFigures, EvenAttentionHasTheEntropyOfItsPositions) {
  const ModelConfig c = mixture("softmax");
  const Parameters parameters = in_double(c);
  const at::NoGradGuard no_grad;
  parameters.at("model.layers.0.self_attn.q_proj.weight").zero_();
  const PassFigures figures = pass_figures(c, parameters, two_rows());
  double sum = 0;
  for (const int64_t row : {8, 5}) {
    for (int64_t t = 1; t <= row; ++t) sum += std::log(static_cast<double>(t));
  }
  ASSERT_EQ(figures.attention.size(), 2u);
  ASSERT_EQ(figures.attention[0].entropy.size(), 4u);
  for (const double entropy : figures.attention[0].entropy) EXPECT_NEAR(entropy, sum / 13, 1e-12);
  for (const double logit : figures.attention[0].largest_logit) EXPECT_EQ(logit, 0);
}

// A query is as long as its norm makes it: with gains of g on queries and keys no logit is above
// g^2 sqrt(D), and one of a token with itself reaches it.
TEST(PassFigures, TheLargestLogitIsThatOfNormedHeads) {
  ModelConfig c = mixture("softmax");
  c.num_key_value_heads = 4;
  const Parameters parameters = in_double(c);
  const at::NoGradGuard no_grad;
  const std::string prefix = "model.layers.0.self_attn.";
  parameters.at(prefix + "k_proj.weight").copy_(parameters.at(prefix + "q_proj.weight"));
  parameters.at(prefix + "q_norm.weight").fill_(2);
  parameters.at(prefix + "k_norm.weight").fill_(2);
  const PassFigures figures = pass_figures(c, parameters, two_rows());
  for (const double logit : figures.attention[0].largest_logit)
    EXPECT_NEAR(logit, 4 * std::sqrt(6.0), 1e-3);  // less the norm's epsilon
}

// The systems that form their scores, and those that hand queries and keys over, tell one figure a
// head and layer.
TEST(PassFigures, EveryAttentionSystemIsSeen) {
  for (const std::string name : {"gqa", "talking", "collaborative", "mla", "gta"}) {
    ModelConfig c = mixture("softmax");
    c.attention = name;
    if (name == "collaborative") c.shared_key_width = 12;
    if (name == "collaborative" || name == "mla") c.num_key_value_heads = 4;
    if (name == "mla") c.latent_heads = 1;
    if (name == "mla") c.kv_latent = 8;
    if (name == "mla" || name == "gta") c.rope_head_dim = 2;
    validate(c, name);
    const PassFigures figures = pass_figures(c, in_double(c), two_rows());
    ASSERT_EQ(figures.attention.size(), 2u) << name;
    for (const double entropy : figures.attention[1].entropy) {
      EXPECT_GT(entropy, 0) << name;
      EXPECT_LT(entropy, std::log(8)) << name;
    }
  }
}

// A router whose weight is zero: sigmoid scores of one half, so that two chosen ones sum to one.
TEST(PassFigures, RoutersByHand) {
  const ModelConfig c = mixture("sigmoid");
  const Parameters parameters = in_double(c);
  const at::NoGradGuard no_grad;
  parameters.at("model.layers.1.mlp.gate.weight").zero_();
  parameters.at("model.layers.1.mlp.gate.e_score_correction_bias")
      .copy_(at::tensor(std::vector<double>{-0.25, 0, 0, 0, 0.5}));
  const PassFigures figures = pass_figures(c, parameters, two_rows());
  ASSERT_EQ(figures.routers.size(), 1u) << "the first layer is dense";
  const RouterFigures& f = figures.routers[0];
  EXPECT_EQ(f.layer, 1);
  EXPECT_EQ(f.logit_size, 0);
  EXPECT_NEAR(f.score_entropy, 1, 1e-12);
  EXPECT_NEAR(f.weight_sum_mean, 1, 1e-12);
  EXPECT_NEAR(f.weight_sum_low, 1, 1e-12);
  EXPECT_EQ(f.bias_least, -0.25);
  EXPECT_NEAR(f.bias_mean, 0.05, 1e-12);
  EXPECT_EQ(f.bias_most, 0.5);
}

// Three groups of two experts, one open. Expert 0 has the best wish and scores of its own, but its
// group's sum is below the second's, so the sums are those of the experts of one half.
TEST(PassFigures, RoutersWithGroupsCountTheOpenOnesAlone) {
  ModelConfig c = mixture("sigmoid");
  c.experts.count = 6;
  c.experts.groups = 3;
  c.experts.open_groups = 1;
  const Parameters parameters = in_double(c);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = parameters.at("model.layers.1.mlp.gate.weight");
  weight.zero_();
  weight.select(0, 0).fill_(1.0);
  parameters.at("model.layers.1.mlp.gate.e_score_correction_bias")
      .copy_(at::tensor(std::vector<double>{9, 0, 5, 5, 0, 0}));
  const PassFigures figures = pass_figures(c, parameters, two_rows());
  ASSERT_EQ(figures.routers.size(), 1u);
  EXPECT_NEAR(figures.routers[0].weight_sum_mean, 1.0, 1e-12);
}

// One expert takes all: softmax scores of one token are nearly one and zero.
TEST(PassFigures, ASureRouterHasNoEntropy) {
  const ModelConfig c = mixture("softmax");
  const Parameters parameters = in_double(c);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = parameters.at("model.layers.1.mlp.gate.weight");
  weight.mul_(1e4);
  const RouterFigures f = pass_figures(c, parameters, two_rows()).routers.at(0);
  EXPECT_LT(f.score_entropy, 0.05);
  EXPECT_GT(f.logit_size, 100);
  EXPECT_NEAR(f.weight_sum_mean, 1, 1e-3);
  EXPECT_EQ(f.bias_most, 0);
}

TEST(PassFigures, ChangesNothing) {
  const ModelConfig c = mixture("sigmoid");
  const Parameters parameters = in_double(c);
  const at::Tensor before = parameters.at("model.layers.1.mlp.gate.weight").clone();
  pass_figures(c, parameters, two_rows());
  EXPECT_TRUE(at::equal(before, parameters.at("model.layers.1.mlp.gate.weight")));
  EXPECT_GT(number(before.abs().sum()), 0);
}

}  // namespace
}  // namespace kha
