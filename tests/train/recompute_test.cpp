// Layers that run again in the backward pass: the same gradients bit for bit, in less memory.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "counting_allocator.h"
#include "kha/core/parameter_table.h"
#include "model/decoder.h"
#include "model/initialise.h"
#include "train/gradient.h"

namespace kha {
namespace {

ModelConfig small(const std::string& setting) {
  ModelConfig c;
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 6;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.vocab_size = 257;
  c.initializer_range = 0.3;
  c.knocks.all = named_setting(setting, "test").knocks;
  return c;
}

Batch some_batch(int64_t rows, int64_t context) {
  Batch b;
  b.rows = rows;
  b.context = context;
  for (int64_t i = 0; i < rows * context; ++i) {
    b.inputs.push_back(37 * i * i % 257);
    b.targets.push_back(37 * (i + 1) * (i + 1) % 257);
    b.counted.push_back(i % 5 != 0);
    b.documents.push_back(0);
    b.counted_targets += i % 5 != 0;
  }
  return b;
}

Parameters parameters_of(const ModelConfig& config, const std::string& frozen) {
  const Parameters parameters = initialise(config, KnockStart::identity, 3);
  for (const auto& [name, value] : parameters.entries()) {
    at::Tensor(value).requires_grad_(frozen.empty() || name.find(frozen) == std::string::npos);
  }
  return parameters;
}

// Two micro-batches each way; every gradient and the loss.
void expect_equal_bits(const std::string& setting, const std::string& frozen, Arithmetic how) {
  const ModelConfig config = small(setting);
  const Parameters plain = parameters_of(config, frozen), again = parameters_of(config, frozen);
  const std::vector<Batch> batches{some_batch(2, 9), some_batch(1, 9)};
  const double loss = accumulate_gradient(config, plain, batches, {}, how);
  how.recompute = Recompute::layer;
  EXPECT_EQ(accumulate_gradient(config, again, batches, {}, how), loss);
  for (const auto& [name, value] : plain.entries()) {
    const at::Tensor other = again.at(name).grad();
    ASSERT_EQ(value.grad().defined(), other.defined()) << name << ", " << setting;
    if (!other.defined()) continue;
    EXPECT_GT(other.abs().max().item<double>(), 0) << name;
    EXPECT_TRUE(at::equal(value.grad(), other)) << name << ", " << setting << ", " << frozen;
  }
}

TEST(Recompute, GradientsAreEqualBitForBit) {
  for (const std::string setting : {"baseline", "kha-linear", "kha-mlp-qkv"}) {
    expect_equal_bits(setting, "", {});
  }
  expect_equal_bits("kha-mlp", "", {.dtype = at::kBFloat16});
}

// Without a gradient at the first layer's input its parameters still get theirs.
TEST(Recompute, FrozenParametersStayWithout) {
  expect_equal_bits("kha-mlp", "embed_tokens", {});
  expect_equal_bits("kha-mlp", "self_attn", {});
  expect_equal_bits("kha-mlp", "layers.3.", {});
}

// The bytes alive between forward and backward, and at most during both.
struct Memory {
  std::int64_t kept, peak;
};

Memory memory_of(Recompute recompute) {
  const ModelConfig config = small("kha-mlp");
  const Parameters parameters = parameters_of(config, "");
  const BatchTensors batch = to_tensors(some_batch(4, 64), {}, at::kCPU);
  Memory memory{};
  memory.peak = test::CountingAllocator::peak_of([&] {
    const Decoder decoder(config, parameters, KnockPlan::weight_space, 64, recompute);
    const at::Tensor hidden = decoder.hidden(batch.ids);
    memory.kept = test::CountingAllocator::live;
    hidden.sum().backward();
  });
  return memory;
}

TEST(Recompute, KeepsOneInputALayer) {
  const Memory plain = memory_of(Recompute::none), again = memory_of(Recompute::layer);
  const std::int64_t state = 4 * 4 * 64 * 32;  // one [B, T, d] of float32
  // The inputs of six layers and of the final norm, its result, and the angles.
  EXPECT_LE(again.kept, 8 * state + 2 * 4 * 64 * 8 + 1024);
  EXPECT_GE(plain.kept, 6 * 8 * state);
  EXPECT_LT(again.peak, plain.peak / 2);
}

TEST(Recompute, WithoutGradientsTheLayerJustRuns) {
  const ModelConfig config = small("kha-mlp");
  const Parameters parameters = parameters_of(config, "");
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(9, at::kLong).view({1, 9});
  const Decoder plain(config, parameters, KnockPlan::weight_space, 9);
  const Decoder again(config, parameters, KnockPlan::weight_space, 9, Recompute::layer);
  EXPECT_TRUE(at::equal(plain.hidden(ids), again.hidden(ids)));
  EXPECT_FALSE(again.hidden(ids).requires_grad());
}

}  // namespace
}  // namespace kha
