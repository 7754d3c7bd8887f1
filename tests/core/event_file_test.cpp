#include "kha/core/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/thrown.h"
#include "kha/core/error.h"
#include "kha/core/temporary_folder.h"

namespace kha {
namespace {

using ::testing::HasSubstr;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Number>
Number number_at(const std::string& bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return rotated << 15 | rotated >> 17;
}

// The data of every record, both checksums checked.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> found;
  for (size_t at = 0; at < bytes.size();) {
    const auto size = number_at<uint64_t>(bytes, at);
    EXPECT_EQ(unmasked(number_at<uint32_t>(bytes, at + 8)), crc32c(bytes.substr(at, 8)));
    found.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(unmasked(number_at<uint32_t>(bytes, at + 12 + size)), crc32c(found.back()));
    at += 16 + size;
  }
  return found;
}

TEST(Crc32c, HasTheKnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFileTest, ARecordIsFramedAndHoldsTheScalar) {
  const TemporaryFolder folder("event-file");
  EventFile file(folder.path() / "tb", 8);
  file.write(300, {{"val/loss", 1.5}});
  const auto events = records(content(file.path()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[0], HasSubstr("\x1a\x0d"
                                   "brain.Event:2"));
  EXPECT_THAT(events[1].substr(9), std::string("\x10\x08\x3a\x02\x08\x01"));  // step 8, START
  const std::string scalar = std::string("\x0a\x08") + "val/loss" + '\x15' +
                             std::string("\x00\x00\xc0\x3f", 4);  // 1.5 as float32
  EXPECT_EQ(events[2].substr(9), std::string("\x10\xac\x02\x2a\x11\x0a\x0f", 7) + scalar);
}

TEST(EventFileTest, ALaterFileSortsBehindTheEarlier) {
  const TemporaryFolder folder("event-file");
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) names.push_back(EventFile(folder.path(), 0).path().filename());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(EventFileTest, AFolderThatCannotBeMadeIsASentence) {
  const TemporaryFolder folder("event-file");
  std::ofstream(folder.path() / "tb") << "a file";
  const std::string text = thrown([&] { EventFile(folder.path() / "tb", 0); });
  EXPECT_THAT(text, HasSubstr("cannot write the run's TensorBoard events"));
  EXPECT_THAT(text, HasSubstr("train.tensorboard=false"));
}

}  // namespace
}  // namespace kha
