// What a stream shows is the whole text up to the stop, however the bytes are cut into pieces.
#include "kha/core/text_stream.h"

#include <gmock/gmock.h>

#include "core/thrown.h"

namespace kha {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> shown(TextStream& stream, const std::vector<std::string>& pieces) {
  std::vector<std::string> out;
  for (const auto& piece : pieces) out.push_back(stream.push(piece));
  out.push_back(stream.finish());
  return out;
}

std::string joined(TextStream& stream, const std::vector<std::string>& pieces) {
  std::string text;
  for (const auto& piece : shown(stream, pieces)) text += piece;
  return text;
}

std::vector<std::string> cut(const std::string& text, size_t size) {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < text.size(); i += size) pieces.push_back(text.substr(i, size));
  return pieces;
}

TEST(TextStream, PlainTextPassesAtOnce) {
  TextStream stream;
  EXPECT_THAT(shown(stream, {"one ", "two"}), ElementsAre("one ", "two", ""));
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, FindsAStopInsideAToken) {
  TextStream stream({"\","});
  EXPECT_THAT(shown(stream, {"a", "\",x", "never"}), ElementsAre("a", "", "", ""));
  EXPECT_EQ(stream.stop(), "\",");
  TextStream before({"stop"});
  EXPECT_THAT(shown(before, {"text stop more"}), ElementsAre("text ", ""));
}

TEST(TextStream, HoldsBackTheBeginningOfAStop) {
  TextStream stream({"beta gamma"});
  EXPECT_THAT(shown(stream, {"alpha ", "beta ", "gamma", " delta"}),
              ElementsAre("alpha ", "", "", "", ""));
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStream, GivesBackWhatTurnedOutToBeNoStop) {
  TextStream stream({"beta gamma"});
  EXPECT_THAT(shown(stream, {"alpha ", "beta ", "blue", " beta"}),
              ElementsAre("alpha ", "", "beta blue", " ", "beta"));
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, HoldsBackTheLongestTailOfSeveralStops) {
  TextStream stream({"cd", "bcx", "zz"});
  EXPECT_THAT(shown(stream, {"abc", "y"}), ElementsAre("a", "bcy", ""));
}

TEST(TextStream, AStopThatOverlapsItself) {
  TextStream stream({"aab"});
  EXPECT_EQ(joined(stream, cut("aaab!", 1)), "a");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStream, TheStopThatIsCompleteFirstEnds) {
  for (size_t size : {1, 2, 3, 20}) {
    TextStream stream({"abcd", "bc"});
    EXPECT_EQ(joined(stream, cut("xabcd", size)), "xa") << size;
    EXPECT_EQ(stream.stop(), "bc");
    TextStream same_end({"bc", "abc"});
    EXPECT_EQ(joined(same_end, cut("xabcd", size)), "x") << size;
    EXPECT_EQ(same_end.stop(), "abc");
  }
}

TEST(TextStream, AnEmptyStopIsRefused) {
  const std::string text = thrown([] { TextStream({"a", ""}); });
  EXPECT_THAT(text, HasSubstr("stop text is empty"));
  EXPECT_THAT(text, HasSubstr("--stop"));
}

TEST(TextStream, CharactersAppearWhole) {
  TextStream emoji;
  EXPECT_THAT(shown(emoji, cut("\xF0\x9F\x98\x80!", 1)),
              ElementsAre("", "", "", "\xF0\x9F\x98\x80", "!", ""));
  TextStream hangul;
  EXPECT_THAT(shown(hangul, {"a\xED\x95", "\x9C ", "\xEA", "\xB8\x80"}),
              ElementsAre("a", "\xED\x95\x9C ", "", "\xEA\xB8\x80", ""));
}

TEST(TextStream, ABlankDoesNotFlushHalfACharacter) {
  TextStream stream;
  EXPECT_THAT(shown(stream, {"\xF0\x9F", " \xF0\x9F", "\x98\x80"}),
              ElementsAre("", "\xF0\x9F ", "\xF0\x9F\x98\x80", ""));
}

TEST(TextStream, AnUnfinishedCharacterComesAtTheEnd) {
  TextStream stream;
  EXPECT_THAT(shown(stream, {"a\xE2\x82"}), ElementsAre("a", "\xE2\x82"));
  TextStream before_stop({"."});
  EXPECT_THAT(shown(before_stop, {"a\xE2\x82", "."}), ElementsAre("a", "\xE2\x82", ""));
}

TEST(TextStream, BytesThatBeginNoCharacterAreNotHeld) {
  const std::vector<std::string> broken = {"\x80",     "\xC0",     "\xC1",        "\xFF",
                                           "\xF5",     "\xE0\x80", "\xED\xA0",    "\xF0\x8F",
                                           "\xF4\x90", "\xE2\x28", "\xF0\x9F\x28"};
  for (const auto& bytes : broken) {
    TextStream stream;
    EXPECT_EQ(stream.push(bytes), bytes);
  }
  const std::vector<std::string> unfinished = {"\xC2", "\xE0\xA0", "\xED\x9F", "\xF0\x90",
                                               "\xF4\x8F\xBF"};
  for (const auto& bytes : unfinished) {
    TextStream stream;
    EXPECT_EQ(stream.push(bytes), "");
    EXPECT_EQ(stream.finish(), bytes);
  }
}

TEST(TextStream, EveryCutGivesTheSameBytes) {
  const std::string text =
      "caf\xC3\xA9 \xF0\x9F\x98\x80 \xED\x95\x9C\xEA\xB8\x80 \x80\xFF\xE2\x82 \xF0\x9F\x98 <sto "
      "<stop? \xE2";
  for (size_t size = 1; size <= text.size(); ++size) {
    TextStream open({"<stop>", "\xF0\x9F\x98\x81"});
    EXPECT_EQ(joined(open, cut(text, size)), text) << size;
    EXPECT_FALSE(open.stopped());
    TextStream closed({"\x98\x80", "<stop>"});
    EXPECT_EQ(joined(closed, cut(text, size)), "caf\xC3\xA9 \xF0\x9F") << size;
  }
}

TEST(TextStream, TakesNothingAfterItsEnd) {
  TextStream stream;
  stream.finish();
  EXPECT_EQ(stream.push("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace kha
