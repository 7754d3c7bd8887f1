#include "kha/core/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/thrown.h"
#include "kha/core/counts.h"
#include "kha/core/schedule.h"

namespace kha {
namespace {

ModelConfig model_of(const std::string& name) {
  const ModelPreset* preset = find_model_preset(name);
  EXPECT_NE(preset, nullptr) << name;
  std::vector<std::string> sets = preset->sets;
  sets.push_back("knock.setting=baseline");
  ModelConfig model = parse_run_config("", name, sets).model;
  model.vocab_size = preset->vocab_size;
  return model;
}

TEST(Presets, AreThePapersModels) {
  struct Row {
    const char* name;
    int64_t total, active;
  };
  for (const Row& row : {Row{"moe-2.3b", 2347826304, 436796544},
                         {"moe-6.6b", 6613364736, 880275456},
                         {"moe-14.6b", 14650674944, 1627361024},
                         {"moe-6.1b", 6102268416, 1006189056},
                         {"dense-0.61b", 613997568, 613997568},
                         {"dense-1.68b", 1680973824, 1680973824},
                         {"dense-3.94b", 3941531136, 3941531136}}) {
    const ParameterCount count = count_parameters(model_of(row.name));
    EXPECT_EQ(count.total, row.total) << row.name;
    EXPECT_EQ(count.active, row.active) << row.name;
  }
}

TEST(Presets, AreTheShapesOfTable3) {
  EXPECT_EQ(count_parameters(model_of("moe-6.6b-mha")).active, 851963904);
  EXPECT_EQ(count_parameters(model_of("moe-6.6b-gqa8")).active, 795340800);
  EXPECT_EQ(count_parameters(model_of("moe-6.6b-mqa")).active, 859041792);
}

TEST(Presets, SmallRelativesKeepTheProportions) {
  int relatives = 0;
  for (const ModelPreset& preset : model_presets()) {
    const size_t end = preset.name.rfind("-small");
    if (end == std::string::npos) continue;
    ++relatives;
    const ModelConfig s = model_of(preset.name), l = model_of(preset.name.substr(0, end));
    const auto same = [&](int64_t a, int64_t b, int64_t c, int64_t d) {
      EXPECT_EQ(a * d, b * c) << preset.name;  // a : b = c : d
    };
    same(s.intermediate_size, s.hidden_size, l.intermediate_size, l.hidden_size);
    same(s.num_attention_heads * s.head_dim, s.hidden_size, l.num_attention_heads * l.head_dim,
         l.hidden_size);
    same(s.num_attention_heads, s.num_key_value_heads, l.num_attention_heads,
         l.num_key_value_heads);
    same(s.experts.count, s.experts.active, l.experts.count, l.experts.active);
    EXPECT_EQ(s.experts.width, s.experts.any() ? s.intermediate_size : 0);
    EXPECT_LT(count_parameters(s).active, 4000000) << preset.name;
  }
  EXPECT_EQ(relatives, 10);
}

TEST(Recipes, StepsAndWarmUpAreThePapers) {
  struct Row {
    const char* name;
    int64_t steps, warmup, tokens_a_step;
    double lr;
  };
  for (const Row& row : {Row{"exploratory", 47684, 2384, 2097152, 7.5e-4},
                         {"ablation", 35763, 1788, 2097152, 7.5e-4},
                         {"main", 238419, 11921, 4194304, 4.78e-4}}) {
    const RunConfig c = parse_run_config("", row.name, recipe_preset(row.name).sets);
    EXPECT_EQ(c.train.steps, row.steps) << row.name;
    EXPECT_EQ(warmup_steps(c.schedule, c.train.steps), row.warmup) << row.name;
    EXPECT_EQ(c.tokens_per_step(), row.tokens_a_step) << row.name;
    EXPECT_EQ(c.optimizer.lr, row.lr) << row.name;
    EXPECT_EQ(c.schedule.floor, 0.1);
    EXPECT_EQ(c.optimizer.clip, 1.0);
    EXPECT_EQ(c.optimizer.beta2, 0.95);
  }
}

TEST(Recipes, AMistypedNameIsAnswered) {
  EXPECT_THAT(thrown([] { recipe_preset("exploratry"); }),
              testing::AllOf(testing::HasSubstr("did you mean `exploratory`"),
                             testing::HasSubstr("kha plan --list")));
  EXPECT_EQ(find_model_preset("moe-7b"), nullptr);
}

}  // namespace
}  // namespace kha
