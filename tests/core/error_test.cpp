#include "kha/core/error.h"

#include <gtest/gtest.h>

namespace kha {
namespace {

TEST(Error, TextHasAllPartsInOrder) {
  const std::string text = to_text({.what = "the shape differs",
                                    .where = "model.safetensors, norm.weight",
                                    .expected = "[64]",
                                    .found = "[32]",
                                    .cause = "the config is of another model",
                                    .next = "kha inspect DIR"});
  EXPECT_EQ(text,
            "the shape differs\n"
            "  where:    model.safetensors, norm.weight\n"
            "  expected: [64]\n"
            "  found:    [32]\n"
            "  cause:    the config is of another model\n"
            "  next:     kha inspect DIR");
}

TEST(Error, EmptyPartsAreLeftOut) {
  EXPECT_EQ(to_text({.what = "the file is empty", .next = "give a file with text"}),
            "the file is empty\n  next:     give a file with text");
}

// Names in files are whatever somebody wrote there.
TEST(Error, ControlsAndBrokenCharactersAreWrittenOut) {
  EXPECT_EQ(to_text({.what = "no \x1b[2J, no \x7f",
                     .found = "\xc2\x9b"
                              "31m \xff \xc3"}),
            "no \\x1b[2J, no \\x7f\n  found:    \\xc2\\x9b31m \\xff \\xc3");
  EXPECT_EQ(to_text({.what = "d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80", .found = "two\n    lines"}),
            "d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80\n  found:    two\n    lines");
}

TEST(Error, FailThrowsWithTextPartsAndCode) {
  try {
    fail({.what = "the file is empty", .where = "a.txt"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the file is empty\n  where:    a.txt");
    EXPECT_EQ(error.diagnosis().where, "a.txt");
    EXPECT_EQ(error.code(), ExitCode::bad_input);
  }
}

TEST(Error, FailKeepsAnotherCode) {
  try {
    fail({.what = "the logits differ"}, ExitCode::check_failed);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::check_failed);
    EXPECT_EQ(static_cast<int>(error.code()), 1);
  }
}

}  // namespace
}  // namespace kha
