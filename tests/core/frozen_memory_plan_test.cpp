// What frozen groups of parameters do not take.
#include <gtest/gtest.h>

#include "kha/core/counts.h"
#include "kha/core/memory_plan.h"

namespace kha {
namespace {

Training only_maps() {
  return {{Role::embedding, Role::head, Role::matrix, Role::norm, Role::bias, Role::expert}};
}

TEST(FrozenStepMemory, FrozenGroupsHaveNeitherMomentsNorGradients) {
  ModelConfig model;
  model.knocks.all = named_setting("kha-linear", "").knocks;
  const double all = static_cast<double>(count_parameters(model).total), maps = 4 * 3 * 32 * 32;
  const StepMemory m = predict_step_memory(model, {}, only_maps());
  EXPECT_DOUBLE_EQ(m.weights, 4 * all);
  EXPECT_DOUBLE_EQ(m.moments, 8 * maps);
  EXPECT_DOUBLE_EQ(m.gradients, 4 * maps);
  EXPECT_DOUBLE_EQ(predict_step_memory(model, {}, {{Role::knock}}).moments, 8 * (all - maps));
}

// Sizes as in StepMemory.ALayerKeepsWhatItsOperatorsWereGiven. What goes into a frozen product is
// not kept: of each layer the two norms' outputs. Below the first map nothing is.
TEST(FrozenStepMemory, FrozenProductsKeepNoInput) {
  const BatchShape batch{.rows = 8, .context = 256};
  ModelConfig model;
  const double layer = 2 * 256 + 2 * (256 + 64) + 64 + 256 + 8 + 2 * 768, all = layer + 2 * 256;
  const auto kept = [&](const Training& training) {
    return predict_step_memory(model, batch, training).kept / (4.0 * 2048);
  };
  EXPECT_DOUBLE_EQ(kept({{Role::matrix}}), 4 * layer);
  EXPECT_DOUBLE_EQ(kept({{Role::embedding}}), 4 * all) << "the norms want their input";
  EXPECT_DOUBLE_EQ(kept({{Role::embedding, Role::norm}}), 4 * all - 256);
  model.knocks.all = named_setting("kha-mlp", "").knocks;
  const double with_input = layer + 64;
  // In the first layer the fused kernel keeps all it was given, but no norm wants its input.
  EXPECT_DOUBLE_EQ(kept(only_maps()), 4 * with_input - 256 - 256 - 64);
  // Without maps in the two lower layers, the third is the first.
  for (const int64_t i : {0, 1}) model.knocks.layers[i] = {};
  EXPECT_DOUBLE_EQ(kept(only_maps()), 2 * with_input - 256 - 256 - 64);
  BatchShape again = batch;
  again.recompute = true;
  EXPECT_DOUBLE_EQ(predict_step_memory(model, again, only_maps()).kept, 4.0 * 2048 * 2 * 256);
}

// A map in its projection's weight needs the rows that the projection was given.
TEST(FrozenStepMemory, AMapInAFrozenWeightKeepsTheRows) {
  const BatchShape batch{.rows = 8, .context = 256};
  ModelConfig model;
  const double bare = predict_step_memory(model, batch, {{Role::matrix}}).kept;
  model.knocks.all = named_setting("kha-linear", "").knocks;
  const double mapped = predict_step_memory(model, batch, {{Role::matrix}}).kept;
  EXPECT_DOUBLE_EQ(mapped - bare, 4.0 * 2048 * 4 * 256);
}

// A passing layer keeps nothing and has no more than its feed-forward's tensors.
TEST(FrozenStepMemory, AFrozenBodyIsPassedThrough) {
  ModelConfig model;
  model.tie_word_embeddings = false;
  Training head;
  for (const Role role : all_roles) {
    if (role != Role::head) head.frozen.insert(role);
  }
  const StepMemory m = predict_step_memory(model, {.rows = 8, .context = 256}, head);
  const double all = static_cast<double>(count_parameters(model).total), own = 257 * 256;
  EXPECT_DOUBLE_EQ(m.kept, 0);
  EXPECT_DOUBLE_EQ(m.peak, 4 * (all + 2 * own + 2048.0 * (4 * 256 + 3 * 768)));
}

}  // namespace
}  // namespace kha
