#include "kha/core/byte_tokenizer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/text_files.h"
#include "kha/core/checksum.h"

namespace kha {
namespace {

using testing::HasSubstr;

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

TEST(ByteTokenizer, GivesEveryByteItsOwnValue) {
  const auto ids = ByteTokenizer::encode(all_bytes());
  ASSERT_EQ(ids.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[byte], byte);
}

TEST(ByteTokenizer, DecodesToTheSameBytesAndDropsTheEndMark) {
  std::vector<std::int64_t> ids = ByteTokenizer::encode(all_bytes());
  ids.insert(ids.begin() + 100, ByteTokenizer::end_id);
  ids.push_back(ByteTokenizer::end_id);
  EXPECT_EQ(ByteTokenizer::decode(ids), all_bytes());
}

TEST(ByteTokenizer, RefusesIdsItDoesNotHave) {
  const std::vector<std::int64_t> ids = {72, 257};
  const std::string message = message_of([&] { ByteTokenizer::decode(ids); });
  EXPECT_THAT(message, HasSubstr("cannot decode id 257"));
  EXPECT_THAT(message, HasSubstr("position 1 of 2"));
  EXPECT_THAT(message, HasSubstr("end mark 256"));
  EXPECT_THAT(message, HasSubstr("tokenizer.json"));
  const std::vector<std::int64_t> negative = {-1};
  EXPECT_THAT(message_of([&] { ByteTokenizer::decode(negative); }), HasSubstr("id -1"));
}

TEST(ByteTokenizer, WritesAVocabularyOfAllBytesAndTheEndMark) {
  const auto json = nlohmann::json::parse(ByteTokenizer::tokenizer_json());
  std::set<int> ids;
  const auto vocab = json["model"]["vocab"];
  for (const auto& [text, id] : vocab.items()) ids.insert(id.get<int>());
  EXPECT_EQ(ids.size(), 256u);
  EXPECT_EQ(vocab.value("A", -1), 'A');
  // The 33rd and the last of the 68 bytes that do not stand for themselves.
  EXPECT_EQ(vocab.value("\u0120", -1), ' ');
  EXPECT_EQ(vocab.value("\u0143", -1), 0xAD);
  EXPECT_EQ(vocab.value("\u010a", -1), '\n');
  EXPECT_TRUE(json["model"]["merges"].empty());
  EXPECT_EQ(json["added_tokens"][0]["id"], 256);
  EXPECT_EQ(json["added_tokens"][0]["content"], "<|end|>");
  const auto config = nlohmann::json::parse(ByteTokenizer::tokenizer_config_json());
  EXPECT_EQ(config["eos_token"], "<|end|>");
}

TEST(ByteTokenizer, HashIsThatOfItsFile) {
  const std::string json = ByteTokenizer::tokenizer_json();
  EXPECT_EQ(ByteTokenizer::hash(), xxh3_64(std::as_bytes(std::span<const char>(json))));
}

}  // namespace
}  // namespace kha
