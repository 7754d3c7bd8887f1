#include "kha/core/token_shard.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "data/text_files.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t tokenizer = 0x1234;

class TokenShardTest : public TextFiles {
 protected:
  // A shard with ids 0, 1, 2, ... modulo the vocabulary.
  fs::path write(const std::vector<std::int64_t>& lengths, std::int64_t vocab_size = 257) const {
    std::vector<std::int64_t> ids(std::accumulate(lengths.begin(), lengths.end(), 0));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) % vocab_size;
    TokenShardWriter writer(
        path("x.tokens"),
        {.vocab_size = vocab_size, .tokenizer_hash = tokenizer, .document_lengths = lengths});
    writer.write(ids);
    writer.finish();
    return path("x.tokens");
  }

  template <class Number>
  std::string refusal_after(std::size_t at, Number number) const {
    std::string bytes = read_file(path("x.tokens"));
    std::memcpy(bytes.data() + at, &number, sizeof(Number));
    return refusal_of(bytes);
  }

  std::string refusal_of(std::string_view contents) const {
    add("changed.tokens", contents);
    return message_of([&] { TokenShard::open(path("changed.tokens"), tokenizer); });
  }
};

TEST_F(TokenShardTest, GivesBackWhatWasWritten) {
  const TokenShard shard = TokenShard::open(write({3, 1, 300}), tokenizer);
  EXPECT_EQ(shard.tokens(), 304);
  EXPECT_EQ(shard.documents(), 3);
  EXPECT_EQ(shard.vocab_size(), 257);
  EXPECT_EQ(shard.tokenizer_hash(), tokenizer);
  EXPECT_EQ(shard.token(256), 256);
  EXPECT_EQ(shard.token(303), 46);
  std::vector<std::int64_t> ids(3);
  shard.copy(255, 3, ids.data());
  EXPECT_THAT(ids, ElementsAre(255, 256, 0));
  EXPECT_EQ(shard.document_begin(2), 4);
  EXPECT_EQ(shard.document_end(2), 304);
  shard.check_all_ids();
}

TEST_F(TokenShardTest, LayoutIsAsDocumented) {
  const std::string bytes = read_file(write({3, 1}));
  ASSERT_EQ(bytes.size(), 128u + 4 * 2);  // 48 + 3 offsets, up to a multiple of 64; ids of 2 bytes
  EXPECT_EQ(bytes.substr(0, 8), "KHATOKEN");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\1\0\0\0\2\0\0\0", 8));
  EXPECT_EQ(bytes.substr(48, 8), std::string(8, '\0'));
  EXPECT_EQ(bytes.substr(56, 16), std::string("\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(128), std::string("\0\0\1\0\2\0\3\0", 8));
}

TEST_F(TokenShardTest, StoresLargeVocabulariesInFourBytes) {
  write({70000}, 65536);
  EXPECT_EQ(fs::file_size(path("x.tokens")), 64u + 70000 * 2);
  const TokenShard shard = TokenShard::open(write({70000}, 65537), tokenizer);
  EXPECT_EQ(fs::file_size(path("x.tokens")), 64u + 70000 * 4);
  EXPECT_EQ(shard.token(65536), 65536);
  EXPECT_EQ(shard.token(65537), 0);
}

TEST_F(TokenShardTest, KeepsDocumentBoundariesBeyond16Bits) {
  const std::vector<std::int64_t> lengths = {2, 5, 65537, 1, 65536, 4};
  const TokenShard shard = TokenShard::open(write(lengths), tokenizer);
  ASSERT_EQ(shard.documents(), 6);
  std::int64_t begin = 0;
  for (std::int64_t document = 0; document < 6; ++document) {
    EXPECT_EQ(shard.document_begin(document), begin);
    EXPECT_EQ(shard.document_of(begin), document);
    begin += lengths[document];
    EXPECT_EQ(shard.document_end(document), begin);
    EXPECT_EQ(shard.document_of(begin - 1), document);
  }
  EXPECT_EQ(shard.tokens(), begin);
}

TEST_F(TokenShardTest, NamesTheIdThatIsOutsideTheVocabulary) {
  write({10000});
  std::string bytes = read_file(path("x.tokens"));
  bytes.replace(64 + 2 * 5000, 2, std::string("\1\1", 2));  // 257
  const fs::path changed = add("changed.tokens", bytes);
  const TokenShard shard = TokenShard::open(changed, tokenizer);
  std::vector<std::int64_t> ids(100);
  for (const auto& message :
       {message_of([&] { shard.check_all_ids(); }), message_of([&] { shard.token(5000); }),
        message_of([&] { shard.copy(4950, 100, ids.data()); })}) {
    EXPECT_THAT(message, AllOf(HasSubstr("outside the vocabulary"), HasSubstr(changed.string()),
                               HasSubstr("byte 10064 (token 5000)"), HasSubstr("id 257"),
                               HasSubstr("vocabulary size 257")));
  }
  shard.copy(4900, 100, ids.data());
}

TEST_F(TokenShardTest, ChecksTheFirstIdsWhenOpened) {
  write({10000});
  EXPECT_THAT(refusal_after(64 + 2 * 10, std::uint16_t{60000}),
              AllOf(HasSubstr("(token 10)"), HasSubstr("id 60000")));
}

TEST_F(TokenShardTest, SaysWhatAForeignFileIs) {
  const std::string u32("\1\0\0\0\2\1\0\0", 8), u16("\1\2\2\5\3\4\0\7\1\1", 10);
  EXPECT_THAT(refusal_of(std::string("\x93NUMPY\1\0", 8) + u32),
              AllOf(HasSubstr("not a token shard"), HasSubstr("changed.tokens"),
                    HasSubstr("starts with KHATOKEN"), HasSubstr(".npy"), HasSubstr("how wide")));
  EXPECT_THAT(refusal_of(std::string("\2\0\0\0\0\0\0\0{}", 10)), HasSubstr("safetensors"));
  EXPECT_THAT(refusal_of(u32), HasSubstr("raw ids of 4 bytes"));
  EXPECT_THAT(refusal_of(u16), HasSubstr("raw ids of 2 bytes"));
  EXPECT_THAT(refusal_of("PAR1...."), HasSubstr("Parquet"));
  EXPECT_THAT(refusal_of("Once upon a time"), HasSubstr("a text file"));
  EXPECT_THAT(refusal_of(""), HasSubstr("an empty file"));
  EXPECT_THAT(refusal_of("\x01\x02\xff"), HasSubstr("something else"));
}

TEST_F(TokenShardTest, RefusesAnotherTokenizer) {
  write({3});
  const auto open = [&] { TokenShard::open(path("x.tokens"), 0x99); };
  EXPECT_THAT(message_of(open),
              AllOf(HasSubstr("another tokenizer"), HasSubstr("0000000000000099"),
                    HasSubstr("0000000000001234"), HasSubstr("prepare the text again")));
}

TEST_F(TokenShardTest, RefusesDamagedHeaders) {
  write({3, 4});
  constexpr auto huge = ~std::uint64_t{0};
  EXPECT_THAT(
      refusal_after(8, std::uint32_t{7}),
      AllOf(HasSubstr("another version"), HasSubstr("expected: 1"), HasSubstr("found:    7")));
  EXPECT_THAT(refusal_after(12, std::uint32_t{3}),
              AllOf(HasSubstr("byte 12"), HasSubstr("id type")));
  EXPECT_THAT(refusal_after(16, huge), AllOf(HasSubstr("byte 16"), HasSubstr("vocabulary")));
  for (const std::uint64_t count : {huge, huge / 2, huge / 8, std::uint64_t{6}}) {
    EXPECT_THAT(refusal_after(32, count), HasSubstr("damaged"));
    EXPECT_THAT(refusal_after(40, count), HasSubstr("damaged"));
  }
  for (const std::uint64_t offset : {huge, std::uint64_t{0}, std::uint64_t{8}}) {
    EXPECT_THAT(refusal_after(56, offset), HasSubstr("from 0 to 7")) << offset;
  }
  EXPECT_THAT(refusal_after(48, std::uint64_t{1}), HasSubstr("offset 0 is 1"));
  EXPECT_THAT(refusal_after(64, std::uint64_t{6}), HasSubstr("offset 2 is 6"));
}

TEST_F(TokenShardTest, RefusesEveryOtherLength) {
  const std::string bytes = read_file(write({3, 4}));
  for (std::size_t length = 8; length < bytes.size(); ++length) {
    EXPECT_THAT(refusal_of(bytes.substr(0, length)), HasSubstr("damaged")) << length;
  }
  EXPECT_THAT(
      refusal_of(bytes + "x"),
      AllOf(HasSubstr("142 bytes: 2 documents and 7 ids of 2 bytes"), HasSubstr("143 bytes")));
}

TEST_F(TokenShardTest, WriterRefusesWhatWasNotPlanned) {
  const std::vector<std::int64_t> lengths = {2, 3}, four(4), six(6);
  const TokenShardPlan plan{.vocab_size = 10, .tokenizer_hash = 1, .document_lengths = lengths};
  TokenShardWriter writer(path("w.tokens"), plan);
  const std::vector<std::int64_t> bad = {1, 10};
  EXPECT_THAT(message_of([&] { writer.write(bad); }),
              AllOf(HasSubstr("outside the vocabulary"), HasSubstr("token 1"), HasSubstr("10")));
  writer.write(four);
  EXPECT_THAT(message_of([&] { writer.finish(); }),
              AllOf(HasSubstr("5 tokens"), HasSubstr("4"), HasSubstr("text changed")));
  EXPECT_THAT(message_of([&] { writer.write(four); }), HasSubstr("at least 8"));
  EXPECT_FALSE(fs::exists(path("w.tokens")));
}

}  // namespace
}  // namespace kha
