// What must hold of a knocking-heads model whatever its weights are.
#include <gtest/gtest.h>

#include "model/tiny_model.h"
#include "modules/causal.h"

namespace kha::test {
namespace {

TEST(IdentityStart, EverySettingIsTheBaselineBitForBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const HeadCase& heads : head_cases) {
      for (const auto plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
        for (const auto& [name, knocks] : all_settings()) {
          ModelConfig plain = tiny_config(), knocked = tiny_config(knocks);
          plain.num_key_value_heads = knocked.num_key_value_heads = heads.kv_heads;
          plain.attention_bias = knocked.attention_bias = heads.bias;
          const auto start = [&](const ModelConfig& config) {
            return initialise(config, KnockStart::identity, 5).cast(dtype);
          };
          const at::Tensor ids = some_ids(2, 11);
          const at::Tensor without = logits_of(plain, start(plain), ids, plan);
          EXPECT_TRUE(logits_of(knocked, start(knocked), ids, plan).equal(without))
              << name << ", " << heads.name() << ", " << dtype << ", " << to_string(plan);
        }
      }
    }
  }
}

TEST(IdentityStart, ARandomStartDiffers) {
  for (const auto& [name, knocks] : all_settings()) {
    if (!knocks.any()) continue;
    const ModelConfig plain = tiny_config(), knocked = tiny_config(knocks);
    const at::Tensor ids = some_ids(1, 9);
    const at::Tensor without = logits_of(plain, initialise(plain, KnockStart::identity, 5), ids);
    EXPECT_FALSE(logits_of(knocked, initialise(knocked, KnockStart::random, 5), ids).equal(without))
        << name;
  }
}

// A new order of the KV heads, each with its query heads, and of the query heads of a group.
struct HeadOrder {
  std::vector<int64_t> queries, keys;
};

HeadOrder reversed(const ModelConfig& config) {
  HeadOrder order;
  for (int64_t h = config.num_attention_heads; h-- > 0;) order.queries.push_back(h);
  for (int64_t h = config.num_key_value_heads; h-- > 0;) order.keys.push_back(h);
  return order;
}

// Dimension `dim` of size heads * D, its blocks of D in another order.
at::Tensor reorder(const at::Tensor& weight, int64_t dim, const std::vector<int64_t>& order) {
  const auto blocks = weight.chunk(static_cast<int64_t>(order.size()), dim);
  std::vector<at::Tensor> moved;
  for (int64_t head : order) moved.push_back(blocks[head]);
  return at::cat(moved, dim);
}

Parameters permuted(const Parameters& parameters, const HeadOrder& order) {
  Parameters result;
  for (const auto& [name, value] : parameters.entries()) {
    const auto is = [&](const char* projection) {
      return name.find(projection) != std::string::npos;
    };
    if (is("q_proj"))
      result.add(name, reorder(value, 0, order.queries));
    else if (is("k_proj") || is("v_proj"))
      result.add(name, reorder(value, 0, order.keys));
    else if (is("o_proj.weight"))
      result.add(name, reorder(value, 1, order.queries));
    else
      result.add(name, value);
  }
  return result;
}

TEST(HeadPermutation, LeavesTheLogitsUnchanged) {
  for (const auto& [name, knocks] : all_settings()) {
    for (const HeadCase& heads : head_cases) {
      ModelConfig config = tiny_config(knocks);
      config.num_key_value_heads = heads.kv_heads;
      config.attention_bias = heads.bias;
      const Parameters parameters = random_parameters(config);
      const at::Tensor ids = some_ids(2, 11), before = logits_of(config, parameters, ids);
      const at::Tensor after = logits_of(config, permuted(parameters, reversed(config)), ids);
      EXPECT_LT(largest(after - before), 1e-10 * largest(before)) << name << ", " << heads.name();
    }
  }
}

TEST(HeadPermutation, OfTheQueriesAloneIsSeen) {
  const ModelConfig config = tiny_config(named_setting("kha-mlp", "test").knocks);
  const Parameters parameters = random_parameters(config);
  HeadOrder order = reversed(config);
  order.keys = {0, 1};
  const at::Tensor ids = some_ids(2, 11), before = logits_of(config, parameters, ids);
  EXPECT_GT(largest(logits_of(config, permuted(parameters, order), ids) - before),
            1e-3 * largest(before));
}

// Linear maps on V written into v_proj; `maps` gives the one of each KV head.
Parameters with_maps(const Parameters& parameters, const std::vector<at::Tensor>& maps) {
  Parameters result;
  for (const auto& [name, value] : parameters.entries()) {
    if (name.find("v_proj.weight") == std::string::npos) {
      result.add(name, value);
      continue;
    }
    std::vector<at::Tensor> blocks = value.chunk(static_cast<int64_t>(maps.size()), 0);
    for (size_t head = 0; head < maps.size(); ++head) blocks[head] = maps[head].mm(blocks[head]);
    result.add(name, at::cat(blocks, 0));
  }
  return result;
}

TEST(HeadPermutation, AMapThatDiffersByHeadBreaksIt) {
  const ModelConfig config = tiny_config();
  const Parameters parameters = random_parameters(config);
  const Parameters moved = permuted(parameters, reversed(config));
  const auto map = [](int64_t seed) {
    return initial_tensor({"map", {6, 6}, Role::knock, Init::normal, 0}, 0.5, seed).to(at::kDouble);
  };
  const at::Tensor ids = some_ids(2, 11);
  const auto change = [&](const std::vector<at::Tensor>& maps) {
    const at::Tensor before = logits_of(config, with_maps(parameters, maps), ids);
    return largest(logits_of(config, with_maps(moved, maps), ids) - before) / largest(before);
  };
  EXPECT_LT(change({map(1), map(1)}), 1e-10);
  EXPECT_GT(change({map(1), map(2)}), 1e-3);
}

TEST(Grouping, QueryHeadReadsItsOwnKeyValueHead) {
  const at::Tensor queries = at::randn({1, 5, 4, 6}), keys = at::randn({1, 5, 2, 6});
  at::Tensor values = at::randn({1, 5, 2, 6});
  values.select(2, 1).zero_();
  for (int64_t length : {5, 2, 1}) {
    const at::Tensor heads = causal_attention(queries.narrow(1, 5 - length, length), keys, values);
    for (int64_t head = 0; head < 4; ++head) {
      EXPECT_EQ(largest(heads.select(2, head)) == 0, head >= 2)
          << "head " << head << " of " << length;
    }
  }
}

TEST(Causality, AChangedTokenChangesNothingBeforeIt) {
  for (const auto& [name, knocks] : all_settings()) {
    const ModelConfig config = tiny_config(knocks);
    const Parameters parameters = random_parameters(config).cast(at::kFloat);
    const at::Tensor ids = some_ids(2, 11), before = logits_of(config, parameters, ids);
    for (int64_t changed : {0, 4, 10}) {
      at::Tensor others = ids.clone();
      others.select(1, changed).add_(1).remainder_(257);
      const at::Tensor after = logits_of(config, parameters, others);
      EXPECT_TRUE(after.narrow(1, 0, changed).equal(before.narrow(1, 0, changed)))
          << name << " " << changed;
      for (int64_t t = changed; t < 11; ++t) {
        EXPECT_FALSE(after.select(1, t).equal(before.select(1, t)))
            << name << " " << changed << " " << t;
      }
    }
  }
}

}  // namespace
}  // namespace kha::test
