#include "core/tokenizer/word_counts.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "core/tokenizer/merge_learner.h"
#include "kha/core/temporary_folder.h"

namespace kha {
namespace {

std::map<std::string, std::uint64_t> as_map(const WordCounts& counts) {
  std::map<std::string, std::uint64_t> all;
  for (const auto& word : counts.words()) all[std::string(counts.text_of(word))] = word.count;
  return all;
}

TEST(WordCounts, CountsEachWordOnce) {
  WordCounts counts, other;
  for (int i = 0; i < 10'000; ++i) counts.add(std::to_string(i % 5000));
  other.add("7", 3);
  other.add("new");
  counts.add(other);
  const auto all = as_map(counts);
  EXPECT_EQ(all.size(), 5001u);
  EXPECT_EQ(all.at("7"), 5u);
  EXPECT_EQ(all.at("4999"), 2u);
  EXPECT_EQ(all.at("new"), 1u);
}

TEST(WordCounts, CutsOnlyWhereEveryPatternDoes) {
  const std::string text = "some words\n\n  12 \u4E2D\u6587\u3002 e\u0301x";
  const std::size_t cut = last_sure_cut(text);
  EXPECT_EQ(text.substr(0, cut), "some words\n\n  12 \u4E2D\u6587");
  EXPECT_EQ(last_sure_cut(std::string(5000, 'a')), 0u);
  EXPECT_EQ(last_sure_cut(" \n1234567"), 0u);
}

// Documents longer than the parts that they are read in, on one thread and on three.
TEST(WordCounts, PartsOfADocumentMakeNoDifference) {
  const TemporaryFolder folder("word-counts");
  std::string text;
  for (int i = 0; text.size() < 3'500'000; ++i) {
    text +=
        "w" + std::to_string(i * 31 % 977) + "a  e\u0301\n\n" + (i % 3 ? " \u4E2D\u6587" : "''");
  }
  text += std::string(1'300'000, 'b');  // no place to cut
  const auto file = folder.path() / "text";
  std::ofstream(file) << text;
  WordCounts whole;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = WordScanner(SplitPattern::llama3).end_of_piece(text, at);
    whole.add(std::string_view(text).substr(at, end - at));
    at = end;
  }
  const std::vector<TextDocument> documents{{"text", file, text.size(), {}}};
  for (const int threads : {1, 3}) {
    const auto counts = count_words(documents, SplitPattern::llama3, false, threads, {});
    EXPECT_EQ(as_map(counts), as_map(whole));
  }
}

TEST(MergeLearner, TakesTheMostFrequentPairThenTheLowerIds) {
  WordCounts words;
  words.add("ab", 5);
  words.add("cd", 5);
  words.add("abcd", 2);
  const LearntMerges learnt = learn_merges(words, {"<end>"}, 1 + 256 + 3, 2, {});
  const auto spelled = [&](std::size_t merge) {
    const auto [left, right] = learnt.merges.at(merge);
    return learnt.tokens.at(left) + "+" + learnt.tokens.at(right);
  };
  EXPECT_EQ(learnt.tokens.at(0), "<end>");
  EXPECT_EQ(spelled(0), "a+b");
  EXPECT_EQ(spelled(1), "c+d");
  EXPECT_EQ(spelled(2), "ab+cd");
  EXPECT_EQ(learnt.merges.size(), 3u);
}

TEST(MergeLearner, StopsWhereNoPairIsFrequentEnough) {
  WordCounts words;
  words.add("xy", 3);
  words.add("xz", 2);
  EXPECT_EQ(learn_merges(words, {}, 1000, 3, {}).merges.size(), 1u);
  EXPECT_EQ(learn_merges(words, {}, 1000, 0, {}).merges.size(), 2u);
}

}  // namespace
}  // namespace kha
