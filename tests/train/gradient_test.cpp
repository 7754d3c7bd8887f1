// The step's gradient does not depend on how its batch is cut, counts only what counts, and never
// lets a number that is none into a weight.
#include "train/gradient.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kha/core/parameter_table.h"
#include "model/decoder.h"
#include "model/initialise.h"
#include "train/optimizer.h"

namespace kha {
namespace {

ModelConfig tiny() {
  ModelConfig c;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.vocab_size = 257;
  c.knocks.all.v = KnockKind::mlp;
  c.initializer_range = 0.3;
  return c;
}

// Rows of `context` tokens; row r counts its first counted[r] targets.
Batch make_batch(const std::vector<int64_t>& counted, int64_t first_row, int64_t context) {
  Batch b;
  b.rows = static_cast<int64_t>(counted.size());
  b.context = context;
  for (int64_t row = 0; row < b.rows; ++row) {
    for (int64_t t = 0; t < context; ++t) {
      b.inputs.push_back((31 * (first_row + row) + 7 * t) % 256);
      b.targets.push_back((31 * (first_row + row) + 7 * (t + 1)) % 256);
      b.counted.push_back(t < counted[row]);
      b.documents.push_back(0);
    }
    b.counted_targets += counted[row];
  }
  return b;
}

struct Step {
  double loss;
  std::vector<at::Tensor> gradients = {};
};

Step gradient_of(const std::vector<Batch>& batches) {
  const ModelConfig config = tiny();
  const Parameters parameters = initialise(config, KnockStart::identity, 3).cast(at::kDouble);
  for (const auto& [name, value] : parameters.entries()) at::Tensor(value).requires_grad_(true);
  const Arithmetic arithmetic{.dtype = at::kDouble};
  Step step{accumulate_gradient(config, parameters, batches, {}, arithmetic), {}};
  for (const auto& [name, value] : parameters.entries()) step.gradients.push_back(value.grad());
  return step;
}

void expect_equal(const Step& a, const Step& b) {
  EXPECT_NEAR(a.loss, b.loss, 1e-12);
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_LT((a.gradients[i] - b.gradients[i]).abs().max().item<double>(), 1e-12);
  }
}

TEST(Gradient, MicroBatchesOfUnequalCountsWeighByToken) {
  const Step whole = gradient_of({make_batch({2, 10}, 0, 12)});
  const Step cut = gradient_of({make_batch({2}, 0, 12), make_batch({10}, 1, 12)});
  expect_equal(whole, cut);
}

TEST(Gradient, TargetsThatDoNotCountHaveNoInfluence) {
  Batch one = make_batch({5}, 0, 12), other = one;
  for (size_t i = 5; i < other.targets.size(); ++i) other.targets[i] = 99;
  expect_equal(gradient_of({one}), gradient_of({other}));
}

TEST(Gradient, NothingCountedIsAZeroGradientNotANan) {
  const Step step = gradient_of({make_batch({0, 0}, 0, 12)});
  EXPECT_EQ(step.loss, 0);
  for (const auto& gradient : step.gradients) EXPECT_EQ(gradient.abs().max().item<double>(), 0);
}

// The mean loss from logits that are whole, and its gradients by autograd alone.
Step plain_gradient(const ModelConfig& config, const Parameters& parameters, const Batch& batch) {
  const BatchTensors tensors = to_tensors(batch, {}, at::kCPU);
  const Decoder decoder(config, parameters, KnockPlan::weight_space, batch.context);
  const at::Tensor logits = decoder.logits(decoder.hidden(tensors.ids)).flatten(0, 1);
  const at::Tensor loss = at::cross_entropy_loss(logits, tensors.targets.flatten(), {},
                                                 at::Reduction::Mean, /*ignore_index=*/-100);
  loss.backward();
  Step step{loss.item<double>(), {}};
  for (const auto& [name, value] : parameters.entries()) step.gradients.push_back(value.grad());
  return step;
}

// 96 rows are two chunks of the head. `frozen` is a parameter that takes no gradient.
void expect_plain_gradient(bool tied, const std::string& frozen) {
  ModelConfig config = tiny();
  config.tie_word_embeddings = tied;
  const Batch batch = make_batch({12, 3, 12, 12, 0, 12, 12, 12}, 0, 12);
  std::vector<Step> steps;
  for (bool plain : {false, true}) {
    const Parameters parameters = initialise(config, KnockStart::identity, 3).cast(at::kDouble);
    for (const auto& [name, value] : parameters.entries()) {
      at::Tensor(value).requires_grad_(name != frozen && frozen != "all but the head");
    }
    if (frozen == "all but the head") at::Tensor(parameters.at("lm_head.weight")).requires_grad_();
    if (plain) {
      steps.push_back(plain_gradient(config, parameters, batch));
    } else {
      steps.push_back(
          {accumulate_gradient(config, parameters, {batch}, {}, {.dtype = at::kDouble})});
      for (const auto& [name, value] : parameters.entries()) {
        steps[0].gradients.push_back(value.grad());
      }
    }
  }
  EXPECT_NEAR(steps[0].loss, steps[1].loss, 1e-12);
  for (size_t i = 0; i < steps[0].gradients.size(); ++i) {
    const at::Tensor &found = steps[0].gradients[i], &want = steps[1].gradients[i];
    ASSERT_EQ(found.defined(), want.defined()) << i << ", frozen: " << frozen;
    if (!want.defined()) continue;
    EXPECT_LT((found - want).abs().max().item<double>(), 1e-12) << i;
  }
}

TEST(Gradient, IsThatOfLogitsAsAWhole) {
  expect_plain_gradient(true, "nothing");
  expect_plain_gradient(false, "nothing");
  expect_plain_gradient(true, "model.embed_tokens.weight");
  expect_plain_gradient(false, "lm_head.weight");
  expect_plain_gradient(false, "all but the head");
}

std::vector<std::pair<std::string, at::Tensor>> with_gradients(double a, double b) {
  at::Tensor x = at::zeros({2}), y = at::zeros({2});
  x.requires_grad_(true);
  y.requires_grad_(true);
  x.mutable_grad() = at::full({2}, a);
  y.mutable_grad() = at::full({2}, b);
  return {{"x", x}, {"y", y}};
}

TEST(Gradient, ClippingScalesTheWholeNorm) {
  const auto trainable = with_gradients(3, 4);
  const double norm = gradient_norm(trainable);
  EXPECT_NEAR(norm, std::sqrt(50.0), 1e-6);
  clip_gradient(trainable, norm, 1.0);
  EXPECT_NEAR(gradient_norm(trainable), 1.0, 1e-6);
  clip_gradient(trainable, 1.0, 2.0);
  EXPECT_NEAR(gradient_norm(trainable), 1.0, 1e-6);
}

TEST(Gradient, TheFirstBadParameterIsNamed) {
  EXPECT_EQ(first_bad_gradient(with_gradients(1, 2)), "");
  EXPECT_EQ(first_bad_gradient(with_gradients(1, std::nan(""))), "y");
  EXPECT_EQ(first_bad_gradient(with_gradients(INFINITY, std::nan(""))), "x");
  EXPECT_FALSE(std::isfinite(gradient_norm(with_gradients(1, INFINITY))));
}

TEST(Gradient, StepsKeepMovingADiagonalOfOnes) {
  // 1.0 - 6e-4 rounds back to 1.0 in bfloat16: the master weights must not.
  RunConfig config;
  config.model = tiny();
  config.optimizer.knock_decay = "none";
  const Parameters parameters = initialise(config.model, KnockStart::identity, 3);
  Optimizer optimizer(config, parameter_table(config.model), parameters);
  const std::string up = knock_name(0, KnockSlot::v, "up.weight");
  for (int step = 0; step < 3; ++step) {
    accumulate_gradient(config.model, parameters, {make_batch({12, 12}, 0, 12)}, {},
                        {.dtype = at::kBFloat16});
    optimizer.step(6e-4);
  }
  EXPECT_EQ(parameters.at(up).scalar_type(), at::kFloat);
  EXPECT_EQ(parameters.at(up).diagonal().eq(1).sum().item<int64_t>(), 0);
}

}  // namespace
}  // namespace kha
