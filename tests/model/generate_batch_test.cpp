// A batch of prompts gives what each gives alone, in every attention system.
#include "model/generate/generate_batch.h"

#include <gmock/gmock.h>

#include <set>

#include "core/thrown.h"
#include "kha/core/byte_tokenizer.h"
#include "model/attention_systems.h"

namespace kha::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using Prompts = std::vector<std::vector<int64_t>>;

Prompts prompts_of(const std::vector<std::string>& texts) {
  Prompts prompts;
  for (const auto& text : texts) prompts.push_back(ByteTokenizer::encode(text));
  return prompts;
}

void expect_each_alone(const LoadedModel& model, const Prompts& prompts,
                       const GenerateOptions& options, const std::string& name) {
  const auto together = generate_batch(model, prompts, options);
  ASSERT_EQ(together.size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = generate(model, prompts[i], options);
    EXPECT_EQ(together[i].ids, alone.ids) << name << ", prompt " << i;
    EXPECT_EQ(together[i].text, alone.text) << name;
    EXPECT_EQ(together[i].reason, alone.reason) << name;
  }
}

TEST(GenerateBatch, EachTextIsThatOfItsPromptAloneInEverySystem) {
  for (auto& [name, config] : bare_systems()) {
    for (const std::string layout : {"half_split", "interleaved"}) {
      config.rotary_layout = layout;
      const LoadedModel model = random_model(config);
      GenerateOptions options;
      options.max_new_tokens = 20;
      options.sampling.temperature = 0;
      const Prompts prompts = prompts_of({"abc", "once up", ""});
      expect_each_alone(model, prompts, options, name + ", greedy");
      options.use_cache = false;
      expect_each_alone(model, prompts, options, name + ", no cache");
      options.use_cache = true;
      options.sampling.temperature = 0.8;
      options.sampling.seed = 4;
      expect_each_alone(model, prompts, options, name + ", sampled");
    }
  }
}

// One prompt leaves no room, others end by their own end mark, stop text or context.
TEST(GenerateBatch, TextsEndEachInItsOwnTime) {
  ModelConfig config = tiny_config();
  config.max_position_embeddings = 16;
  config.eos_token_id = {};
  for (int64_t id = 0; id < 256; id += 5) config.eos_token_id.push_back(id);
  GenerateOptions options;
  options.max_new_tokens = 12;
  options.stops = {"a", "e", "t"};
  std::set<EndReason> reasons;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    options.sampling.seed = seed;
    const LoadedModel model = random_model(config, static_cast<int64_t>(seed));
    const Prompts prompts = prompts_of({"abc", "1234567890123456", "qwertyuiopas", "z"});
    expect_each_alone(model, prompts, options, "seed " + std::to_string(seed));
    for (const auto& result : generate_batch(model, prompts, options))
      reasons.insert(result.reason);
  }
  EXPECT_GE(reasons.size(), 2u);
}

TEST(GenerateBatch, NoPromptAndNoTokens) {
  const LoadedModel model = random_model(tiny_config());
  EXPECT_THAT(generate_batch(model, {}, {}), IsEmpty());
  GenerateOptions options;
  options.max_new_tokens = 0;
  EXPECT_THAT(generate_batch(model, prompts_of({"a", "bc"}), options)[1].ids, IsEmpty());
  EXPECT_THAT(thrown([&] {
                generate_batch(model, {{1}, {1000}}, options);
              }),
              HasSubstr("the prompt holds an id that the model does not have"));
}

}  // namespace
}  // namespace kha::test
