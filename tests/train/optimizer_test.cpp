// AdamW against its definition in double, the groups, and the three decays of the maps.
#include "train/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/initialise.h"

namespace kha {
namespace {

RunConfig tiny_run(const std::string& decay) {
  RunConfig c;
  c.model.hidden_size = 16;
  c.model.intermediate_size = 24;
  c.model.num_hidden_layers = 1;
  c.model.num_attention_heads = 4;
  c.model.num_key_value_heads = 2;
  c.model.head_dim = 8;
  c.model.knocks.all = named_setting("kha-mlp-qkv", "test").knocks;
  c.optimizer.knock_decay = decay;
  return c;
}

struct Fixture {
  explicit Fixture(const RunConfig& config)
      : parameters(initialise(config.model, KnockStart::identity, 1)),
        optimizer(config, parameter_table(config.model), parameters) {}

  void step(double gradient, double lr) {
    for (const auto& [name, value] : optimizer.trainable()) {
      at::Tensor(value).mutable_grad() = at::full_like(value, gradient);
    }
    optimizer.step(lr);
  }
  at::Tensor map(const std::string& suffix) const {
    return parameters.at(knock_name(0, KnockSlot::v, suffix));
  }

  Parameters parameters;
  Optimizer optimizer;
};

TEST(Optimizer, IsAdamW) {
  RunConfig config = tiny_run("paper");
  Fixture fixture(config);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  double weight = fixture.parameters.at(name)[0][0].item<double>(), mean = 0, square = 0;
  for (int step = 1; step <= 5; ++step) {
    const double g = 0.1 * step, lr = 1e-3 * step;
    fixture.step(g, lr);
    weight -= lr * 0.1 * weight;
    mean = 0.9 * mean + 0.1 * g;
    square = 0.95 * square + 0.05 * g * g;
    const double corrected = mean / (1 - std::pow(0.9, step));
    weight -= lr * corrected / (std::sqrt(square / (1 - std::pow(0.95, step))) + 1e-8);
    EXPECT_NEAR(fixture.parameters.at(name)[0][0].item<double>(), weight, 1e-6);
  }
}

TEST(Optimizer, NormsAndBiasesDoNotDecay) {
  RunConfig config = tiny_run("paper");
  config.model.attention_bias = true;
  Fixture fixture(config);
  fixture.step(0, 0.5);
  EXPECT_EQ(fixture.parameters.at("model.norm.weight")[0].item<float>(), 1.0f);
  for (const auto& group : fixture.optimizer.groups()) {
    const bool plain = group.name == "norms" || group.name == "biases";
    EXPECT_EQ(group.weight_decay, plain ? 0.0 : 0.1) << group.name;
  }
}

TEST(Optimizer, WithoutGradientsMapsStayTheIdentityUnlessThePapersDecayIsChosen) {
  for (const std::string decay : {"none", "to_identity", "paper"}) {
    Fixture fixture(tiny_run(decay));
    for (int step = 0; step < 500; ++step) fixture.step(0, 1e-2);
    const double diagonal = fixture.map("up.weight").diagonal().mean().item<double>();
    if (decay == "paper") {
      EXPECT_NEAR(diagonal, std::pow(1 - 1e-3, 500), 1e-4);
    } else {
      EXPECT_TRUE(fixture.map("up.weight").equal(at::eye(8))) << decay;
      EXPECT_TRUE(fixture.map("gate.weight").equal(at::zeros({8, 8}))) << decay;
    }
  }
}

TEST(Optimizer, DecayToTheIdentityPullsAMovedMapBack) {
  Fixture fixture(tiny_run("to_identity"));
  const at::NoGradGuard no_grad;
  fixture.map("up.weight").add_(1.0);
  fixture.map("gate.weight").add_(1.0);
  for (int step = 0; step < 100; ++step) fixture.step(0, 0.5);
  const double left = std::pow(1 - 0.05, 100);
  EXPECT_NEAR((fixture.map("up.weight") - at::eye(8)).abs().max().item<double>(), left, 1e-5);
  EXPECT_NEAR(fixture.map("gate.weight").abs().max().item<double>(), left, 1e-5);
}

TEST(Optimizer, AutoIsPaperFromScratchAndToIdentityFromAModel) {
  RunConfig config = tiny_run("auto");
  EXPECT_EQ(resolve_knock_decay(config), KnockDecay::paper);
  config.init.from = "somewhere";
  EXPECT_EQ(resolve_knock_decay(config), KnockDecay::to_identity);
}

TEST(Optimizer, GroupsScaleTheRateAndFreeze) {
  RunConfig config = tiny_run("none");
  config.optimizer.groups[static_cast<size_t>(Role::knock)].lr_scale = 0.5;
  config.optimizer.groups[static_cast<size_t>(Role::embedding)].freeze = true;
  Fixture fixture(config);
  const at::Tensor before = fixture.parameters.at("model.embed_tokens.weight").clone();
  fixture.step(1.0, 0.01);
  EXPECT_TRUE(fixture.parameters.at("model.embed_tokens.weight").equal(before));
  EXPECT_FALSE(fixture.optimizer.has("model.embed_tokens.weight"));
  EXPECT_NEAR(fixture.map("up.weight")[0][0].item<double>(), 1 - 0.005, 1e-6);
  EXPECT_NEAR(fixture.parameters.at("model.norm.weight")[0].item<double>(), 1 - 0.01, 1e-6);
}

}  // namespace
}  // namespace kha
