// Folding, in double, of every attention system with every legal combination of maps: the folded
// model is the model, and where no map is in the cache, neither cache differs by a bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/surgery/fold_plan.h"
#include "model/attention_systems.h"
#include "modules/attention/attention.h"

namespace kha::test {
namespace {

struct Folded {
  ModelConfig config;
  Parameters parameters;
  std::vector<FoldedMap> maps;
};

Folded fold(const ModelConfig& config, const Parameters& parameters) {
  const FoldPlan plan = plan_fold(config, {.condition_limit = 1e9}, [&](const std::string& name) {
    const at::Tensor map = parameters.at(name).contiguous();
    return Matrix(Eigen::Map<const Matrix>(map.const_data_ptr<double>(), map.size(0), map.size(1)));
  });
  Folded folded{.config = plan.after, .parameters = {}, .maps = plan.maps};
  for (const ParameterSpec& spec : parameter_table(plan.after)) {
    const at::Tensor value = parameters.at(spec.name).clone().contiguous();
    const auto edit = plan.edits.find(spec.name);
    if (edit != plan.edits.end()) {
      edit->second({value.mutable_data_ptr<double>(), static_cast<size_t>(value.numel())});
    }
    folded.parameters.add(spec.name, value);
  }
  return folded;
}

TEST(FoldSystems, TheFoldedModelIsTheModel) {
  const at::Tensor ids = some_ids(2, 11);
  for (const auto& [name, config] : legal_systems()) {
    const Parameters parameters = random_parameters(config);
    const Folded folded = fold(config, parameters);
    for (const FoldedMap& map : folded.maps) {
      const bool gone = map.before == KnockKind::linear;
      EXPECT_EQ(map.after == KnockKind::none, gone) << name;
    }
    const at::Tensor right = logits_of(config, parameters, ids),
                     found = logits_of(folded.config, folded.parameters, ids);
    EXPECT_LT(largest(found - right), 1e-9 * largest(right)) << name;
  }
}

// Linear maps on keys and values that stand outside the cache: latent systems, gta_value,
// gta_apart.
TEST(FoldSystems, ACacheWithoutMapsIsThatOfTheFoldedLayerBitForBit) {
  int64_t checked = 0;
  for (const auto& [name, config] : legal_systems()) {
    const std::string& system = config.attention;
    if (system != "mla" && system != "gla" && system != "gta_value" && system != "gta_apart")
      continue;
    const Parameters parameters = random_parameters(config);
    const Folded folded = fold(config, parameters);
    const at::Tensor x =
        at::sin(at::arange(7 * config.hidden_size, at::kDouble) * 1.7).view({1, 7, -1});
    const RotaryTable rotary(7, config.rotary_width(), 1e4, at::kDouble, at::kCPU);
    const auto entry_of = [&](const ModelConfig& c, const Parameters& p) {
      return make_attention(c, p, 0, {})->project(x, rotary, 0).entry;
    };
    const CacheEntry before = entry_of(config, parameters),
                     after = entry_of(folded.config, folded.parameters);
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i])) << name;
    ++checked;
  }
  EXPECT_GT(checked, 16);
}

}  // namespace
}  // namespace kha::test
