// With a cache a model computes what one pass over all tokens computes.
#include <gtest/gtest.h>

#include "model/tiny_model.h"
#include "modules/kv_cache.h"

namespace kha::test {
namespace {

struct Parity : testing::Test {
  // Logits of all of `ids`, fed in stretches of these lengths. [B, T, vocabulary]
  static at::Tensor in_stretches(const ModelConfig& config, const Parameters& parameters,
                                 const at::Tensor& ids, const std::vector<int64_t>& stretches,
                                 KnockPlan plan) {
    const at::NoGradGuard no_grad;
    const auto dtype = parameters.entries()[0].second.scalar_type();
    const Decoder decoder(config, parameters, plan, ids.size(1));
    KvCache cache(config, ids.size(0), ids.size(1), dtype, at::kCPU);
    std::vector<at::Tensor> logits;
    for (int64_t length : stretches) {
      logits.push_back(
          decoder.logits(decoder.hidden(ids.narrow(1, cache.length(), length), &cache)));
    }
    EXPECT_EQ(cache.length(), ids.size(1));
    return at::cat(logits, 1);
  }

  // In float64, so that only a mistake is larger than the limit.
  static void expect_parity(const ModelConfig& config, const std::vector<int64_t>& stretches,
                            KnockPlan plan = KnockPlan::activation_space) {
    const Parameters parameters = random_parameters(config);
    const at::Tensor ids = some_ids(2, 13);
    const at::Tensor whole = logits_of(config, parameters, ids, plan);
    const at::Tensor parts = in_stretches(config, parameters, ids, stretches, plan);
    EXPECT_LT(largest(whole - parts), 1e-10 * largest(whole));
  }

  inline static const std::vector<int64_t> one_at_a_time{7, 1, 1, 1, 1, 1, 1};
  inline static const std::vector<int64_t> chunks{7, 1, 2, 3};
};

TEST_F(Parity, PrefillThenOneAtATime) {
  for (const auto& [name, knocks] : all_settings()) {
    for (const HeadCase& heads : head_cases) {
      SCOPED_TRACE(name + ", " + heads.name());
      ModelConfig config = tiny_config(knocks);
      config.num_key_value_heads = heads.kv_heads;
      config.attention_bias = heads.bias;
      expect_parity(config, one_at_a_time);
    }
  }
}

TEST_F(Parity, ChunksBehindAPrefill) {
  for (const auto& [name, knocks] : all_settings()) {
    SCOPED_TRACE(name);
    expect_parity(tiny_config(knocks), chunks);
  }
}

TEST_F(Parity, FromTheFirstTokenOn) {
  expect_parity(tiny_config(named_setting("kha-mlp", "test").knocks), std::vector<int64_t>(13, 1));
}

TEST_F(Parity, WithLinearMapsInWeightSpace) {
  expect_parity(tiny_config(named_setting("kha-linear", "test").knocks), chunks,
                KnockPlan::weight_space);
}

TEST_F(Parity, LayersThatDiffer) {
  ModelConfig config = tiny_config(named_setting("kha-linear", "test").knocks);
  config.knocks.layers[1] = {KnockKind::none, KnockKind::gate, KnockKind::mlp};
  expect_parity(config, one_at_a_time);
}

TEST_F(Parity, InFloat32ToRounding) {
  const ModelConfig config = tiny_config(named_setting("kha-mlp-qkv", "test").knocks);
  const Parameters wide = random_parameters(config), narrow = wide.cast(at::kFloat);
  const at::Tensor ids = some_ids(2, 13);
  const at::Tensor right = logits_of(config, wide, ids);
  const double rounding = largest(logits_of(config, narrow, ids) - right);
  const at::Tensor parts = in_stretches(config, narrow, ids, chunks, KnockPlan::activation_space);
  EXPECT_LT(largest(parts - right), 2 * rounding + 1e-6 * largest(right));
}

TEST_F(Parity, UnusedRoomInTheCacheChangesNothing) {
  const ModelConfig config = tiny_config();
  const Parameters parameters = random_parameters(config);
  const at::Tensor ids = some_ids(1, 9);
  const Decoder decoder(config, parameters, KnockPlan::activation_space, 40);
  KvCache cache(config, 1, 40, at::kDouble, at::kCPU);
  const at::Tensor first = decoder.logits(decoder.hidden(ids.narrow(1, 0, 5), &cache));
  const at::Tensor rest = decoder.logits(decoder.hidden(ids.narrow(1, 5, 4), &cache));
  const at::Tensor whole = logits_of(config, parameters, ids);
  EXPECT_LT(largest(at::cat({first, rest}, 1) - whole), 1e-10 * largest(whole));
}

}  // namespace
}  // namespace kha::test
