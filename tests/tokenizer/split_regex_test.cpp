#include "core/tokenizer/split_regex.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "core/tokenizer/word_scanner.h"

namespace kha {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> matches(const std::string& expression, const std::string& text) {
  Spans spans;
  SplitRegex(expression, "here").find(text, spans);
  std::vector<std::string> found;
  for (const Span& span : spans) {
    if (span.match) found.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return found;
}

TEST(SplitRegex, ClassesAreOfTheTablesOfThePackage) {
  // U+A7CB is a letter since Unicode 16, U+180E no blank since 6.3.
  EXPECT_THAT(matches("\\p{L}+", "a\uA7CBb"), ElementsAre("a\uA7CBb"));
  EXPECT_THAT(matches("\\s", "a\u180E\u00A0"), ElementsAre("\u00A0"));
  EXPECT_THAT(matches("[^\\s\\p{L}]+", "a1!\u00A0b"), ElementsAre("1!"));
  EXPECT_THAT(matches("[\\P{N}]+", "a1"), ElementsAre("a"));
  EXPECT_THAT(matches("\\p{Han}", "a\u4E2D"), ElementsAre("\u4E2D"));
}

TEST(SplitRegex, MeansWhatOnigurumaMeans) {
  EXPECT_THAT(matches("^b|a$", "a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(matches(".+", "a\rb\nc"), ElementsAre("a\rb", "c"));
  EXPECT_THAT(matches("\\v", "\v\n"), ElementsAre("\v"));
  EXPECT_THAT(matches("\\u0061|\\x{1F600}", "a\U0001F600"), ElementsAre("a", "\U0001F600"));
}

TEST(SplitRegex, EmptyMatchesCut) {
  Spans spans;
  SplitRegex("(?=b)", "here").find("abab", spans);
  std::vector<std::size_t> ends;
  for (const Span& span : spans) {
    if (span.begin != span.end) ends.push_back(span.end);
  }
  EXPECT_THAT(ends, ElementsAre(1, 3, 4));
}

TEST(SplitRegex, BytesThatAreNoTextAreSymbols) {
  EXPECT_THAT(matches("[^\\s\\p{L}\\p{N}]+", "a\xFF\x80!b\xC3"), ElementsAre("\xFF\x80!", "\xC3"));
}

TEST(SplitRegex, RefusesByNameWhatItWouldReadOtherwise) {
  const auto message = [](const char* expression) {
    return thrown([&] { SplitRegex(expression, "tokenizer.json at /x"); });
  };
  EXPECT_THAT(message("a\\h"), testing::AllOf(HasSubstr("\\h"), HasSubstr("character 2"),
                                              HasSubstr("tokenizer.json at /x")));
  EXPECT_THAT(message("[a&&b]"), HasSubstr("intersection"));
  EXPECT_THAT(message("[a[b]]"), HasSubstr("class within a class"));
  EXPECT_THAT(message("\\p{Cyrillic}"), HasSubstr("\\p{Cyrillic}"));
  EXPECT_THAT(message("a{1,2}+"), HasSubstr("behind a repetition"));
  EXPECT_THAT(message("(?<name>a)"), HasSubstr("group of this kind"));
  EXPECT_THAT(message("\\bword"), HasSubstr("\\b"));
  EXPECT_THAT(message("(a"), HasSubstr("parenthesis"));
}

// The scanner by hand and the expression that it stands for cut alike.
TEST(WordScanner, CutsAsItsExpressionDoes) {
  const std::string text =
      "I'm he'S 's\u2019 '\u017F 12345 \u00BD\u0661 a1b  x\t\ty \n\n z\r\n!!\n\n ?\u0301e\u0301"
      "\u0301 \u4E2D\u6587\u3002\xFF x\xC3 \u00A0\u00A0q   ";
  for (const auto pattern :
       {SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::qwen2, SplitPattern::qwen35}) {
    EXPECT_EQ(known_pattern(regex_of(pattern)), pattern);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = WordScanner(pattern).end_of_piece(text, at);
      ASSERT_GT(end, at);
      pieces.push_back(text.substr(at, end - at));
      at = end;
    }
    EXPECT_EQ(pieces, matches(regex_of(pattern), text)) << regex_of(pattern);
  }
}

}  // namespace
}  // namespace kha
