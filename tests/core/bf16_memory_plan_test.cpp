// The step in bf16.
#include <gtest/gtest.h>

#include "kha/core/counts.h"
#include "kha/core/memory_plan.h"

namespace kha {
namespace {

// Sizes as in StepMemory.ALayerKeepsWhatItsOperatorsWereGiven; the fused kernel's number a head is
// float32.
TEST(Bf16StepMemory, KeepsHalfAndCopiesTheWeights) {
  const StepMemory m = *predict_bf16_step_memory({}, {.rows = 8, .context = 256});
  const double parameters = static_cast<double>(count_parameters({}).total);
  const double layer = 4 * 256 + 2 * (256 + 64) + 64 + 256 + 8 + 2 * 768;
  EXPECT_DOUBLE_EQ(m.weights, 4 * parameters);
  EXPECT_DOUBLE_EQ(m.copies, 2 * parameters);
  EXPECT_DOUBLE_EQ(m.moments, 8 * parameters);
  EXPECT_DOUBLE_EQ(m.kept, 2048 * 4 * (2 * layer + 2 * 8));
  // The worst moment: the topmost gate runs backward, with four tensors of its width.
  const double body = parameters - 257 * 256 - 256, down = 768 * 256, head = 257 * 256;
  const double moment = 2048 * (8 * layer + 4 * 16 + 2 * (4 * 768 + 256) + 4 * 256 + 24);
  EXPECT_DOUBLE_EQ(m.peak, 12 * parameters + 2 * body + 4 * head + 2 * down + moment);
}

// Queries four times as wide as the layer: their norm takes more than the feed-forward. 28
// bytes a number: input, gradient and the gradient from before the rotation in bf16, input and four
// tensors of the gradient in float32, and the quotient in bf16.
TEST(Bf16StepMemory, WideQueriesAreWorstInTheirNorm) {
  ModelConfig model;
  model.num_attention_heads = 32;
  model.intermediate_size = 64;
  const BatchShape batch{.rows = 8, .context = 256};
  const StepMemory m = *predict_bf16_step_memory(model, batch);
  const double parameters = static_cast<double>(count_parameters(model).total);
  const double top = m.kept / 4, queries = 32 * 32, kv = 2 * 2 * 32 * 256;
  const double body = parameters - 257 * 256 - 256, head = 257 * 256;
  const double feed_forward = 3 * 64 * 256 + 256, attention = 2 * queries * 256 + kv + 256 + 64;
  EXPECT_DOUBLE_EQ(body, 4 * (feed_forward + attention));
  EXPECT_DOUBLE_EQ(m.peak, 12 * parameters + 2 * body + 4 * head + m.kept - top +
                               2048 * (8 * 256 + 28 * queries + 4 * 256 + 24));
}

// At the end all gradients are float32; of the embedding there are the copy, the head's gradient,
// and the sum of both beside its float32. An untied one has those of its own.
TEST(Bf16StepMemory, EndsWithTheEmbeddingsGradients) {
  ModelConfig model;
  model.vocab_size = 100000;
  const double vocabulary = 100000.0 * 256;
  const auto peak = [&](int64_t accumulate) {
    return predict_bf16_step_memory(model, {.rows = 1, .context = 16, .accumulate = accumulate})
        ->peak;
  };
  const auto all = [&] { return static_cast<double>(count_parameters(model).total); };
  const double around = 16 * (2 * 2 * 256 + 24);
  EXPECT_DOUBLE_EQ(peak(1), 16 * all() + 6 * vocabulary + around);
  EXPECT_DOUBLE_EQ(peak(2), 16 * all() + 10 * vocabulary + around);
  model.tie_word_embeddings = false;
  EXPECT_DOUBLE_EQ(peak(1), 16 * all() + 6 * vocabulary + around);
}

// Logits of 16 experts and 4 weights in float32, of the numbers as many bytes as ever; the router
// keeps its input in float32 unless it is frozen.
TEST(Bf16StepMemory, ExpertsKeepTheRouterInFloat32) {
  ModelConfig model;
  const BatchShape batch{.rows = 8, .context = 256};
  const auto kept = [&](const Training& training) {
    return predict_bf16_step_memory(model, batch, training)->kept / (2048 * 4);
  };
  const double dense = kept({});
  model.experts = {.count = 16, .active = 4, .width = 192};
  const double experts = 4 * (16 + 7 * 4) + 2 * (2 * 4 * 192 - 2 * 768);
  EXPECT_DOUBLE_EQ(kept({}) - dense, experts + 4 * 256);
  EXPECT_DOUBLE_EQ(kept({{Role::matrix}}) - dense, experts - 2 * 256)
      << "nor the attention its rows";
}

// The gate of wide experts is the worst: six tensors of its width beside the sum in float32, the
// gradient and one row. The gradients of all experts are made together.
TEST(Bf16StepMemory, WideExpertsAreWorstInTheirGate) {
  ModelConfig model;
  model.experts = {.count = 16, .active = 4, .width = 2048};
  const StepMemory m = *predict_bf16_step_memory(model, {.rows = 8, .context = 256});
  const double parameters = static_cast<double>(count_parameters(model).total);
  const double body = parameters - 257 * 256 - 256, head = 257 * 256;
  const double made = 16.0 * 3 * 2048 * 256;
  EXPECT_DOUBLE_EQ(m.peak, 12 * parameters + 2 * body + 4 * head + 2 * made + m.kept +
                               2048 * (2 * (6 * 2048 + 256) + 3 * 512 + 6 * 4 + 4 * 256 + 24));
}

TEST(Bf16StepMemory, IsNotSaidOfWhatIsNotCounted) {
  ModelConfig talking, tied, interleaved, without_norms;
  talking.attention = "talking";
  tied.attention = "gta";
  tied.rope_head_dim = 16;
  interleaved.rotary_layout = "interleaved";
  without_norms.qk_norm = false;
  for (const ModelConfig& model : {talking, tied, interleaved, without_norms})
    EXPECT_FALSE(predict_bf16_step_memory(model, {}).has_value());
}

}  // namespace
}  // namespace kha
