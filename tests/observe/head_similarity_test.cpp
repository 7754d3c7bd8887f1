#include "observe/head_similarity.h"

#include <gtest/gtest.h>

#include "model/tiny_model.h"

namespace kha::test {
namespace {

// Two windows of 7 ids, the second one cut after 4.
Batch some_batch() {
  Batch batch;
  batch.rows = 2;
  batch.context = 7;
  const at::Tensor ids = some_ids(2, 7);
  batch.inputs.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
  batch.targets.assign(14, 0);
  batch.counted.assign(14, 1);
  batch.documents = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1};
  return batch;
}

HeadSimilarity similarity_of(const LayerKnocks& knocks, const Parameters& parameters) {
  return head_similarity(tiny_config(knocks), parameters, some_batch());
}

Parameters replaced(const Parameters& parameters, const std::string& name,
                    const at::Tensor& value) {
  Parameters result;
  for (const auto& [own, tensor] : parameters.entries())
    result.add(own, own == name ? value : tensor);
  return result;
}

TEST(HeadSimilarity, AtTheIdentityTheMapChangesNothing) {
  const LayerKnocks knocks{KnockKind::linear, KnockKind::linear, KnockKind::mlp};
  const auto heads =
      similarity_of(knocks, initialise(tiny_config(knocks), KnockStart::identity, 3));
  EXPECT_EQ(heads.positions, 11);
  ASSERT_EQ(heads.slots.size(), 6u);
  for (const auto& slot : heads.slots) {
    ASSERT_TRUE(slot.before);
    EXPECT_EQ(slot.after.heads, slot.slot == KnockSlot::q ? 4 : 2);
    EXPECT_EQ(slot.before->mean, slot.after.mean);
    EXPECT_EQ(slot.before->similarity, slot.after.similarity);
    EXPECT_GT(slot.after.similarity, 0);
    EXPECT_LT(slot.after.similarity, 1);
    for (int64_t h = 0; h < slot.after.heads; ++h)
      EXPECT_NEAR(slot.after.mean[h * slot.after.heads + h], 1, 1e-12);
  }
}

TEST(HeadSimilarity, AMapOfRankOneMakesAllHeadsAlike) {
  const LayerKnocks knocks{.v = KnockKind::linear};
  const Parameters random = random_parameters(tiny_config(knocks));
  const at::Tensor one_row = random.at(knock_name(0, KnockSlot::v, "weight")).narrow(0, 0, 1);
  const auto heads = similarity_of(
      knocks, replaced(random, knock_name(0, KnockSlot::v, "weight"), one_row.repeat({6, 1})));
  const SlotSimilarity& values = heads.slots[2];
  ASSERT_TRUE(values.layer == 0 && values.slot == KnockSlot::v && values.before);
  EXPECT_LT(values.before->similarity, 0.9);
  EXPECT_NEAR(values.after.similarity, 1, 1e-12);
}

TEST(HeadSimilarity, IsTheMeanOverRealPositionsOfTheFeaturesCosine) {
  const ModelConfig config = tiny_config();
  const Parameters parameters = random_parameters(config);
  const auto heads = similarity_of({}, parameters);
  EXPECT_FALSE(heads.slots[1].before);
  // The first layer's keys by hand: embedding, norm, projection.
  const at::Tensor x = at::embedding(parameters.at("model.embed_tokens.weight"), some_ids(2, 7));
  const at::Tensor normed = x * (x.pow(2).mean(-1, true) + config.rms_norm_eps).rsqrt() *
                            parameters.at("model.layers.0.input_layernorm.weight");
  const at::Tensor keys =
      at::linear(normed, parameters.at("model.layers.0.self_attn.k_proj.weight"))
          .view({14, 2, 6})
          .narrow(0, 0, 11);
  const at::Tensor cosine = at::cosine_similarity(keys.select(1, 0), keys.select(1, 1), 1);
  EXPECT_NEAR(heads.slots[1].after.mean[1], cosine.mean().item<double>(), 1e-9);
  EXPECT_NEAR(heads.slots[1].after.similarity, cosine.abs().mean().item<double>(), 1e-9);
}

TEST(HeadSimilarity, OneHeadHasNoPair) {
  ModelConfig config = tiny_config();
  config.num_key_value_heads = 1;
  const auto heads = head_similarity(config, random_parameters(config), some_batch());
  EXPECT_EQ(heads.slots[2].after.heads, 1);
  EXPECT_EQ(heads.slots[2].after.similarity, 0);
}

}  // namespace
}  // namespace kha::test
