// Generation from tiny models: with and without a cache, its ends, its refusals.
#include "model/generate/generate.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/byte_tokenizer.h"
#include "model/generate/generate_batch.h"
#include "model/tiny_model.h"

namespace kha::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Lt;

// A model that, whatever stands before, gives token b the successor `next(b)`: the layers add
// nothing, and the head's row of a token is the embedding of its predecessor.
LoadedModel scripted(const std::function<int64_t(int64_t)>& next) {
  ModelConfig config = tiny_config();
  config.hidden_size = 257;
  config.tie_word_embeddings = false;
  Parameters parameters;
  for (const auto& spec : parameter_table(config)) {
    at::Tensor value = at::zeros(spec.shape);
    if (spec.init == Init::ones) value.fill_(1);
    if (spec.role == Role::embedding) value = at::eye(257);
    if (spec.role == Role::head) {
      for (int64_t id = 0; id < 257; ++id) value[next(id)][id] = 1;
    }
    parameters.add(spec.name, value);
  }
  return {config, parameters};
}

// Writes the bytes of `text`, each once, then the end mark.
LoadedModel writes(const std::string& text) {
  return scripted([ids = ByteTokenizer::encode(text)](int64_t id) {
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ids[i] == id) return ids[i + 1];
    }
    return id == 256 ? ids[0] : int64_t{256};
  });
}

GenerateOptions greedy(int64_t tokens) {
  GenerateOptions options;
  options.max_new_tokens = tokens;
  options.sampling.temperature = 0;
  return options;
}

std::vector<int64_t> prompt_of(const std::string& text) { return ByteTokenizer::encode(text); }

TEST(Generate, SameIdsWithAndWithoutTheCache) {
  for (const auto& [name, knocks] : all_settings()) {
    ModelConfig config = tiny_config(knocks);
    config.eos_token_id = {};
    const LoadedModel model = random_model(config);
    GenerateOptions options = greedy(30);
    const auto cached = generate(model, prompt_of("Once upon"), options);
    options.use_cache = false;
    const auto whole = generate(model, prompt_of("Once upon"), options);
    EXPECT_EQ(cached.ids, whole.ids) << name;
    EXPECT_EQ(cached.text, whole.text) << name;
    options.sampling.temperature = 0.8;
    const auto sampled_whole = generate(model, prompt_of("Once upon"), options);
    options.use_cache = true;
    EXPECT_EQ(generate(model, prompt_of("Once upon"), options).ids, sampled_whole.ids) << name;
  }
}

TEST(Generate, TheSeedDecidesTheText) {
  const LoadedModel model = random_model(tiny_config());
  GenerateOptions options;
  options.max_new_tokens = 20;
  options.sampling.seed = 4;
  const auto first = generate(model, prompt_of("a"), options);
  EXPECT_EQ(generate(model, prompt_of("a"), options).ids, first.ids);
  options.sampling.seed = 5;
  EXPECT_NE(generate(model, prompt_of("a"), options).ids, first.ids);
}

TEST(Generate, EndsAtTheEndMark) {
  const LoadedModel model = writes("Helo wrd");
  const auto result = generate(model, prompt_of("H"), greedy(50));
  EXPECT_EQ(result.text, "elo wrd");
  EXPECT_EQ(result.ids.back(), 256);
  EXPECT_EQ(result.reason, EndReason::end_mark);
}

TEST(Generate, EveryEndMarkOfTheModelEndsTheText) {
  LoadedModel model = writes("Helo");
  model.config.eos_token_id = {};  // the tokenizer's own always does
  EXPECT_EQ(generate(model, prompt_of("H"), greedy(50)).ids.back(), 256);
  model.config.eos_token_id = {'?', 'l'};
  const auto result = generate(model, prompt_of("H"), greedy(50));
  EXPECT_EQ(result.text, "e");
  EXPECT_THAT(result.ids, ElementsAre('e', 'l'));
  EXPECT_EQ(result.reason, EndReason::end_mark);
}

TEST(Generate, AnEmptyPromptStartsFromTheEndMark) {
  const auto result = generate(writes("Helo"), {}, greedy(50));
  EXPECT_EQ(result.text, "Helo");
  EXPECT_THAT(result.ids, ElementsAre('H', 'e', 'l', 'o', 256));
  EXPECT_EQ(generate(writes(" x"), prompt_of("  "), greedy(9)).text, "x");
}

TEST(Generate, StopsAtTheWantedLength) {
  const auto result = generate(writes("abcdefgh"), prompt_of("a"), greedy(3));
  EXPECT_EQ(result.text, "bcd");
  EXPECT_EQ(result.reason, EndReason::length);
  const auto none = generate(writes("abc"), prompt_of("a"), greedy(0));
  EXPECT_THAT(none.ids, IsEmpty());
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.reason, EndReason::length);
  EXPECT_EQ(generate(writes("abc"), {}, greedy(0)).reason, EndReason::length);
}

TEST(Generate, CutsAtAStopTextAndStreamsTheSame) {
  GenerateOptions options = greedy(50);
  options.stops = {"zz", "fgh"};
  std::string streamed;
  const auto result = generate(writes("abcdefghij"), prompt_of("a"), options,
                               [&](const std::string& piece) { streamed += piece; });
  EXPECT_EQ(result.text, "bcde");
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.reason, EndReason::stop_text);
  EXPECT_EQ(result.stop, "fgh");
  EXPECT_THAT(result.ids, ElementsAre('b', 'c', 'd', 'e', 'f', 'g', 'h'));
  options.stops = {"hijk"};
  EXPECT_EQ(generate(writes("abcdefghij"), prompt_of("a"), options).text, "bcdefghij");
}

TEST(Generate, StreamsWholeCharacters) {
  std::vector<std::string> pieces;
  const auto result = generate(writes("a\xF0\x9F\x98\x80!\xE2\x82"), prompt_of("a"), greedy(50),
                               [&](const std::string& piece) { pieces.push_back(piece); });
  EXPECT_THAT(pieces, ElementsAre("\xF0\x9F\x98\x80", "!", "\xE2\x82"));
  EXPECT_EQ(result.text, "\xF0\x9F\x98\x80!\xE2\x82");
}

TEST(Generate, NeverLeavesTheContext) {
  LoadedModel model = scripted([](int64_t) { return 'x'; });
  for (bool cache : {true, false}) {
    GenerateOptions options = greedy(1000);
    options.use_cache = cache;
    const auto result = generate(model, prompt_of("1234"), options);
    EXPECT_EQ(result.ids.size(), 60u);
    EXPECT_EQ(result.reason, EndReason::context_full);
    const auto full = generate(model, std::vector<int64_t>(64, 'a'), options);
    EXPECT_THAT(full.ids, IsEmpty());
    EXPECT_EQ(full.reason, EndReason::context_full);
    EXPECT_EQ(generate(model, std::vector<int64_t>(63, 'a'), options).ids.size(), 1u);
  }
}

TEST(Generate, APromptLongerThanTheContextIsRefusedWithNumbers) {
  const LoadedModel model = writes("abc");
  const std::string text =
      thrown([&] { generate(model, std::vector<int64_t>(70, 'a'), greedy(1)); });
  EXPECT_THAT(text, AllOf(HasSubstr("prompt is longer"), HasSubstr("at most 64 tokens"),
                          HasSubstr("70 tokens"), HasSubstr("shorten the prompt by 6")));
}

TEST(Generate, IdsThatTheModelDoesNotHaveAreRefused) {
  const LoadedModel model = writes("abc");
  for (int64_t id : {int64_t{-1}, int64_t{257}}) {
    const std::string text = thrown([&] { generate(model, {'a', id}, greedy(1)); });
    EXPECT_THAT(text, AllOf(HasSubstr("token 1 of 2"), HasSubstr("ids from 0 to 256"),
                            HasSubstr(std::to_string(id))));
  }
}

TEST(Generate, BadOptionsAreRefused) {
  const LoadedModel model = writes("abc");
  EXPECT_THAT(thrown([&] { generate(model, {}, greedy(-1)); }),
              AllOf(HasSubstr("--max-tokens"), HasSubstr("-1")));
  GenerateOptions options = greedy(1);
  options.sampling.temperature = -1;
  EXPECT_THAT(thrown([&] { generate(model, {}, options); }), HasSubstr("--temperature"));
  options = greedy(1);
  options.stops = {""};
  EXPECT_THAT(thrown([&] { generate(model, {}, options); }), HasSubstr("stop text is empty"));
}

TEST(Generate, NeverChoosesAnIdOfThePadding) {
  ModelConfig config = tiny_config();
  config.vocab_size = 300;
  config.tie_word_embeddings = false;
  config.eos_token_id = {};
  const Parameters random = random_parameters(config).cast(at::kFloat);
  Parameters parameters;
  for (const auto& [name, value] : random.entries()) {
    at::Tensor biased = value.clone();
    // The padding's rows are a hundred times the others: some of them is almost always the largest.
    if (name == "lm_head.weight") biased.narrow(0, 257, 43).mul_(100);
    parameters.add(name, biased);
  }
  for (double temperature : {0.0, 1.0}) {
    GenerateOptions options = greedy(30);
    options.sampling.temperature = temperature;
    EXPECT_THAT(generate({config, parameters}, prompt_of("a"), options).ids, Each(Lt(257)));
  }
}

// Writes a blank before every id, as tokenizers of words do, and drops that of a text's first;
// names no end mark.
class Words : public Tokenizer {
 public:
  std::string kind() const override { return "words"; }
  int64_t vocab_size() const override { return 257; }
  uint64_t hash() const override { return 0; }
  int64_t end_id() const override { return -1; }
  void encode(std::string_view, std::vector<int64_t>&) const override {}
  void encode_with_special(std::string_view, std::vector<int64_t>&, bool) const override {}
  std::string text_of(int64_t id) const override { return {' ', static_cast<char>(id)}; }
  std::string token(int64_t id) const override { return text_of(id); }
  int64_t bytes_of(int64_t) const override { return 2; }
  void save(const std::filesystem::path&) const override {}
  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) {
      text += text.empty() ? "" : " ";
      text += static_cast<char>(id);
    }
    return text;
  }
};

// A vocabulary with holes: every second id has a row in the model and no token.
class Holes : public Words {
 public:
  std::string token(int64_t id) const override { return id % 2 == 0 ? "" : text_of(id); }
};

TEST(Generate, NeverChoosesAnIdWithoutAToken) {
  LoadedModel model = random_model(tiny_config());
  model.config.eos_token_id = {};
  model.tokenizer = std::make_shared<Words>();
  GenerateOptions options = greedy(40);
  options.sampling.temperature = 1;
  const auto even = [&] {
    int64_t count = 0;
    auto ids = generate(model, {'a'}, options).ids;
    for (const auto& text : generate_batch(model, {{'a'}, {'a', 'b'}}, options))
      ids.insert(ids.end(), text.ids.begin(), text.ids.end());
    for (const int64_t id : ids) count += id % 2 == 0;
    return count;
  };
  EXPECT_GT(even(), 30);
  model.tokenizer = std::make_shared<Holes>();
  EXPECT_EQ(even(), 0);
  options.sampling.temperature = 0;
  EXPECT_EQ(even(), 0);
}

TEST(Generate, ATokenIsReadBehindTheOneBeforeIt) {
  LoadedModel model = writes("abcd");
  model.tokenizer = std::make_shared<Words>();
  std::string shown;
  const GenerateResult result =
      generate(model, {'a'}, greedy(3), [&](const std::string& piece) { shown += piece; });
  EXPECT_EQ(result.text, " b c d");
  EXPECT_EQ(shown, result.text);
}

TEST(Generate, NothingToStartFromIsSaid) {
  LoadedModel model = writes("abc");
  model.tokenizer = std::make_shared<Words>();
  EXPECT_THAT(thrown([&] { generate(model, {}, greedy(1)); }),
              AllOf(HasSubstr("nothing to continue"), HasSubstr("--prompt")));
  model.config.bos_token_id = 'b';
  EXPECT_THAT(generate(model, {}, greedy(1)).ids, ElementsAre('c'));
}

TEST(Generate, WeightsThatAreNotFiniteAreNamed) {
  LoadedModel model = random_model(tiny_config());
  model.parameters.at("model.norm.weight").fill_(NAN);
  EXPECT_THAT(thrown([&] { generate(model, prompt_of("a"), greedy(3)); }),
              AllOf(HasSubstr("no usable logits"), HasSubstr("earlier checkpoint")));
}

TEST(Generate, ReasonsHaveNames) {
  EXPECT_EQ(to_string(EndReason::context_full), "context_full");
  EXPECT_EQ(to_string(EndReason::end_mark), "end_mark");
  EXPECT_THAT(in_words(EndReason::context_full), HasSubstr("context is full"));
}

}  // namespace
}  // namespace kha::test
