#include <gmock/gmock.h>

#include <ctime>
#include <thread>

#include "core/thrown.h"
#include "kha/core/checksum.h"
#include "tokenizer/tokenizer_files.h"

namespace kha {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json with_added(std::vector<Json> tokens) {
  Json json = byte_level_file({{"l", "o"}, {"lo", "w"}, {"e", "r"}});  // 256, 257, 258
  for (auto& token : tokens) json["added_tokens"].push_back(token);
  return json;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(BpeTokenizer, MergesInOrderOfRanksNotOfPlaces) {
  const auto tokenizer = opened(byte_level_file({{"b", "c"}, {"a", "b"}, {"a", "bc"}}));
  EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(258));
  EXPECT_THAT(tokenizer->encode("ab"), ElementsAre(257));
  EXPECT_THAT(tokenizer->encode("aab"), ElementsAre('a', 257));
}

TEST(BpeTokenizer, KeepsBytesThatAreNoText) {
  const auto tokenizer = opened(with_added({}));
  const std::string bytes = "lo\xFFw\x80\xC3 \xED\xA0\x80low\xF4\x90\x80\x80\xE2\x82";
  const Ids ids = tokenizer->encode(bytes);
  EXPECT_EQ(tokenizer->decode(ids), bytes);
  EXPECT_EQ(ids[0], 256);
  EXPECT_EQ(ids[1], 0xFF);
}

TEST(BpeTokenizer, TextOfAFileNeverBecomesAMark) {
  Json json = with_added({added(259, "<|endoftext|>", true), added(260, "<think>")});
  const auto tokenizer = opened(json);
  EXPECT_EQ(tokenizer->end_id(), 259);
  const Ids ids = tokenizer->encode("low<|endoftext|><think>");
  EXPECT_THAT(ids, testing::Not(testing::Contains(259)));
  EXPECT_THAT(ids, testing::Contains(260));
  Ids special;
  tokenizer->encode_with_special("low<|endoftext|>low", special, false);
  EXPECT_THAT(special, ElementsAre(257, 259, 257));
  EXPECT_EQ(tokenizer->decode(special), "lowlow");
  EXPECT_EQ(tokenizer->bytes_of(259), 0);
  EXPECT_EQ(tokenizer->bytes_of(257), 3);
  EXPECT_EQ(tokenizer->text_of(257), "low");
}

TEST(BpeTokenizer, AnEndMarkThatIsNotSpecialIsNotReadFromTextEither) {
  const TokenizerFolder folder(with_added({added(259, "<eot>")}));
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<eot>"}})");
  const auto tokenizer = folder.open();
  EXPECT_EQ(tokenizer->end_id(), 259);
  EXPECT_THAT(tokenizer->encode("<eot>"), testing::Not(testing::Contains(259)));
}

TEST(BpeTokenizer, AnEndMarkThatTheVocabularyLacksIsRefused) {
  const TokenizerFolder folder(with_added({}));
  folder.write("tokenizer_config.json", R"({"eos_token": "<eot>"})");
  EXPECT_THAT(thrown([&] { folder.open(); }), HasSubstr("no token <eot>"));
}

// An rstrip token takes blanks that follow; text that follows does not stop it.
TEST(BpeTokenizer, StripsBlanksAroundAddedTokens) {
  Json right = added(259, "<|u|>");
  right["rstrip"] = true;
  Json left = added(260, "<|v|>");
  left["lstrip"] = true;
  const auto tokenizer = opened(with_added({right, left}));
  EXPECT_THAT(tokenizer->encode("<|u|>low"), ElementsAre(259, 257));
  EXPECT_THAT(tokenizer->encode("<|u|> \n low"), ElementsAre(259, 257));
  EXPECT_THAT(tokenizer->encode("low  <|v|>low"), ElementsAre(257, 260, 257));
}

TEST(BpeTokenizer, SingleWordsAreNotCutOutOfLongerOnes) {
  Json word = added(259, "we");
  word["single_word"] = true;
  const auto tokenizer = opened(with_added({word}));
  EXPECT_THAT(tokenizer->encode("we,wel"), ElementsAre(259, ',', 'w', 'e', 'l'));
}

TEST(BpeTokenizer, AddedTokensThatAreNeitherSpecialNorNormalizedAreFound) {
  const auto tokenizer = opened(with_added({added(259, "<think>")}));
  EXPECT_THAT(tokenizer->encode("<think>low"), ElementsAre(259, 257));
  EXPECT_EQ(tokenizer->decode(Ids{259, 257}), "<think>low");
}

TEST(BpeTokenizer, TheLongestAddedTokenWins) {
  const auto tokenizer =
      opened(with_added({added(259, "<a"), added(260, "<a>"), added(261, "a>b")}));
  EXPECT_THAT(tokenizer->encode("<a>b"), ElementsAre(260, 'b'));
  EXPECT_THAT(tokenizer->encode("<a b"), ElementsAre(259, ' ', 'b'));
}

TEST(BpeTokenizer, RefusesIdsOfAddedTokensThatThePackageWouldNotGive) {
  EXPECT_THAT(thrown([] { opened(with_added({added(300, "<x>")})); }),
              testing::AllOf(HasSubstr("/added_tokens/0"), HasSubstr("id 259")));
}

Json fallback_file(const std::vector<std::string>& tokens) {
  Json vocab = Json::object();
  for (const auto& token : tokens) vocab[token] = vocab.size();
  return {{"pre_tokenizer", nullptr},
          {"decoder", {{"type", "ByteFallback"}}},
          {"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"unk_token", "<unk>"},
            {"vocab", vocab},
            {"merges", Json::array()}}}};
}

TEST(BpeTokenizer, FallsBackToAllBytesOfACharacterOrToNone) {
  const auto tokenizer = opened(fallback_file({"<unk>", "a", "b", "<0x0A>", "<0xF0>", "<0x9F>"}));
  EXPECT_THAT(tokenizer->encode("a\n\nb"), ElementsAre(1, 3, 3, 2));
  EXPECT_THAT(tokenizer->encode("a\xF0\x9F\x98\x80\xF0\x9F\x98\x80z"), ElementsAre(1, 0));
  EXPECT_EQ(tokenizer->decode(Ids{1, 3, 4, 2}),
            "a\n\xF0"
            "b");
}

TEST(BpeTokenizer, SaysWhichCharacterHasNoToken) {
  Json json = fallback_file({"a", "b"});
  json["model"].erase("unk_token");
  const auto tokenizer = opened(json);
  EXPECT_THAT(thrown([&] { tokenizer->encode("a\xC3\xA9"); }), HasSubstr("0xC3 0xA9"));
}

TEST(BpeTokenizer, ReadsBothSpellingsOfMerges) {
  Json json = byte_level_file({{"l", "o"}, {"lo", "w"}});
  json["model"]["merges"] = Json::array({"l o", "lo w\r"});
  EXPECT_THAT(opened(json)->encode("low"), ElementsAre(257));
}

TEST(BpeTokenizer, MergesOfTokensWithBlanksNeedTheList) {
  Json json = {{"model",
                {{"type", "BPE"},
                 {"vocab", {{"a", 0}, {" ", 1}, {" a", 2}, {"a a", 3}}},
                 {"merges", Json::array({Json::array({" ", "a"}), Json::array({"a", " a"})})}}}};
  EXPECT_THAT(opened(json)->encode("a a a"), ElementsAre(3, 2));
  json["model"]["merges"] = Json::array({"  a"});
  EXPECT_THAT(thrown([&] { opened(json); }),
              testing::AllOf(HasSubstr("/model/merges/0"), HasSubstr("list of two texts")));
}

TEST(BpeTokenizer, NamesTheMergeWhoseTokenIsMissing) {
  Json json = byte_level_file({{"l", "o"}});
  json["model"]["merges"].push_back(Json::array({"lo", "w"}));
  EXPECT_THAT(thrown([&] { opened(json); }),
              testing::AllOf(HasSubstr("/model/merges/1"), HasSubstr("low")));
}

TEST(BpeTokenizer, RefusesIdsOutsideItsVocabulary) {
  const auto tokenizer = opened(with_added({added(259, "<x>")}));
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_THAT(thrown([&] {
                tokenizer->decode(Ids{'a', 260});
              }),
              testing::AllOf(HasSubstr("id 260"), HasSubstr("0 to 259")));
  EXPECT_THAT(thrown([&] { tokenizer->bytes_of(-1); }), HasSubstr("id -1"));
}

TEST(BpeTokenizer, IdsWithoutATokenSpellNothing) {
  Json json = byte_level_file({});
  json["model"]["vocab"]["xy"] = 300;
  const auto tokenizer = opened(json);
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->token(280), "");
  EXPECT_EQ(tokenizer->bytes_of(280), 0);
  EXPECT_EQ(tokenizer->decode(Ids{'a', 280, 'b'}), "ab");
}

// n log n: ten times the length takes a little more than ten times as long, not a hundred times.
TEST(BpeTokenizer, LongRunsTakeTimeInProportion) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string half = "a"; half.size() <= 1024; half += half) merges.push_back({half, half});
  const auto tokenizer = opened(byte_level_file(merges));
  const std::string shorter(100'000, 'a'), longer(1'000'000, 'a');
  Ids ids;
  double least_short = 1e9, least_long = 1e9;
  for (int i = 0; i < 3; ++i) {
    least_short = std::min(least_short, seconds_of([&] { tokenizer->encode(shorter, ids); }));
    least_long = std::min(least_long, seconds_of([&] { tokenizer->encode(longer, ids); }));
  }
  EXPECT_LT(least_long, 15 * least_short);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(longer)), longer);
  EXPECT_EQ(tokenizer->encode(longer).size(), 490u);  // 488 of 2048, then 512 and 64
}

TEST(BpeTokenizer, ThreadsEncodeAtTheSameTime) {
  const auto tokenizer = opened(with_added({}));
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += " low" + std::to_string(i * 7919 % 10'007) + "er";
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) threads.emplace_back([&] { tokenizer->encode(text, ids); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

TEST(BpeTokenizer, SavesTheFilesByteForByte) {
  const TokenizerFolder folder(with_added({added(259, "<s>", true)}));
  const std::string config = "{\"eos_token\":\n\"<s>\"}", chat = "{{ messages }}\r\n";
  folder.write("tokenizer_config.json", config);
  folder.write("chat_template.jinja", chat);
  folder.write("model.safetensors", "not the tokenizer's");
  const auto tokenizer = folder.open();
  const TemporaryFolder to("tokenizer-save");
  tokenizer->save(to.path());
  const auto text_of = [&](const char* name) {
    std::ifstream file(to.path() / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(text_of("tokenizer_config.json"), config);
  EXPECT_EQ(text_of("chat_template.jinja"), chat);
  EXPECT_FALSE(std::filesystem::exists(to.path() / "model.safetensors"));
  const std::string json = text_of("tokenizer.json");
  EXPECT_EQ(tokenizer->hash(), xxh3_64(std::as_bytes(std::span<const char>(json))));
  EXPECT_EQ(open_tokenizer(to.path())->hash(), tokenizer->hash());
}

TEST(BpeTokenizer, TheByteTokenizerIsStillOne) {
  const TemporaryFolder folder("byte-tokenizer");
  byte_tokenizer()->save(folder.path());
  EXPECT_EQ(open_tokenizer(folder.path())->kind(), "bytes");
}

}  // namespace
}  // namespace kha
