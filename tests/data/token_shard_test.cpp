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
    TokenShardWriter writer(path("x.tokens"),
                            {.vocab_size = vocab_size, .tokenizer_hash = tokenizer});
    std::span<const std::int64_t> rest(ids);
    for (const std::int64_t length : lengths) {
      writer.write(rest.first(length));
      writer.end_document();
      rest = rest.subspan(length);
    }
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
  ASSERT_EQ(bytes.size(), 64u + 4 * 2 + 3 * 8 + 56);  // header, ids of 2 bytes, offsets, footer
  EXPECT_EQ(bytes.substr(0, 8), "KHATOKEN");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\2\0\0\0\2\0\0\0", 8));
  EXPECT_EQ(bytes.substr(64, 8), std::string("\0\0\1\0\2\0\3\0", 8));
  EXPECT_EQ(bytes.substr(72, 8), std::string(8, '\0'));
  EXPECT_EQ(bytes.substr(80, 16), std::string("\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(96, 24),
            std::string("\4\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24));
  EXPECT_EQ(bytes.substr(144), "KHATOEND");
}

TEST_F(TokenShardTest, StoresLargeVocabulariesInFourBytes) {
  constexpr std::size_t rest = 64 + 2 * 8 + 56;
  write({70000}, 65536);
  EXPECT_EQ(fs::file_size(path("x.tokens")), rest + 70000 * 2);
  const TokenShard shard = TokenShard::open(write({70000}, 65537), tokenizer);
  EXPECT_EQ(fs::file_size(path("x.tokens")), rest + 70000 * 4);
  EXPECT_EQ(shard.token(65536), 65536);
  EXPECT_EQ(shard.token(65537), 0);
}

TEST_F(TokenShardTest, KeepsThePromptOfEachDocument) {
  TokenShardWriter writer(path("p.tokens"), {.vocab_size = 10, .tokenizer_hash = tokenizer});
  const std::vector<std::int64_t> ids = {1, 2, 3};
  for (const std::int64_t prompt : {0, 2, 3}) {
    writer.write(ids);
    writer.end_document(prompt);
  }
  writer.finish();
  const TokenShard shard = TokenShard::open(path("p.tokens"), tokenizer);
  EXPECT_TRUE(shard.has_prompts());
  EXPECT_EQ(shard.prompt_tokens(0), 0);
  EXPECT_EQ(shard.prompt_tokens(1), 2);
  EXPECT_EQ(shard.prompt_tokens(2), 3);
  EXPECT_FALSE(TokenShard::open(write({3}), tokenizer).has_prompts());
}

TEST_F(TokenShardTest, AShardMayBeEmpty) {
  const TokenShard shard = TokenShard::open(write({}), tokenizer);
  EXPECT_EQ(shard.tokens(), 0);
  EXPECT_EQ(shard.documents(), 0);
  shard.check_checksum();
}

TEST_F(TokenShardTest, TheChecksumSeesEveryChangedId) {
  TokenShard::open(write({10000}), tokenizer).check_checksum();
  std::string bytes = read_file(path("x.tokens"));
  bytes[64 + 2 * 9000] ^= 1;  // another id of the vocabulary
  const TokenShard changed = TokenShard::open(add("changed.tokens", bytes), tokenizer);
  changed.check_all_ids();
  EXPECT_THAT(message_of([&] { changed.check_checksum(); }),
              AllOf(HasSubstr("damaged"), HasSubstr("changed.tokens"), HasSubstr("checksum")));
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
  EXPECT_THAT(
      refusal_after(8, std::uint32_t{7}),
      AllOf(HasSubstr("another version"), HasSubstr("expected: 2"), HasSubstr("found:    7")));
  EXPECT_THAT(refusal_after(12, std::uint32_t{3}),
              AllOf(HasSubstr("byte 12"), HasSubstr("id type")));
  EXPECT_THAT(refusal_after(16, ~std::uint64_t{0}),
              AllOf(HasSubstr("byte 16"), HasSubstr("vocabulary")));
}

// Every byte that is not an id: what no other check sees, a checksum does.
TEST_F(TokenShardTest, SeesEveryChangedByteOutsideTheIds) {
  const std::string bytes = read_file(write({3, 4}));
  constexpr std::size_t ids_end = 64 + 7 * 2;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 64 && i < ids_end + 2) continue;  // ids, and the zeros behind them
    std::string changed = bytes;
    changed[i] ^= 0x40;
    EXPECT_THAT(refusal_of(changed), testing::Not("")) << i;
  }
}

// A file whose checksums are right can still have been made wrong.
TEST_F(TokenShardTest, RefusesOffsetsThatDoNotRise) {
  const std::string bytes = read_file(write({3, 4}));
  const auto with_offset = [&](std::size_t index, std::uint64_t offset) {
    std::string changed = bytes;
    std::memcpy(changed.data() + 80 + 8 * index, &offset, 8);
    const auto at = [&](std::size_t begin, std::size_t count) {
      return std::as_bytes(std::span<const char>(changed)).subspan(begin, count);
    };
    const std::uint64_t tables = xxh3_64(at(80, 24));
    std::memcpy(changed.data() + 104 + 32, &tables, 8);
    ChecksumStream ends;
    ends.update(at(0, 64));
    ends.update(at(104, 40));
    const std::uint64_t digest = ends.digest();
    std::memcpy(changed.data() + 144, &digest, 8);
    return refusal_of(changed);
  };
  for (const std::uint64_t offset : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{8}}) {
    EXPECT_THAT(with_offset(1, offset), HasSubstr("from 0 to 7")) << offset;
  }
  EXPECT_THAT(with_offset(0, 1), HasSubstr("offset 0 is 1"));
  EXPECT_THAT(with_offset(2, 6), HasSubstr("offset 2 is 6"));
}

TEST_F(TokenShardTest, RefusesEveryOtherLength) {
  const std::string bytes = read_file(write({3, 4}));
  for (std::size_t length = 8; length < bytes.size(); ++length) {
    EXPECT_THAT(refusal_of(bytes.substr(0, length)), HasSubstr("damaged")) << length;
  }
  EXPECT_THAT(refusal_of(bytes + "x"), HasSubstr("damaged"));
  std::string longer = bytes;
  longer.insert(80, 8, '\0');
  EXPECT_THAT(refusal_of(longer), AllOf(HasSubstr("160 bytes: 2 documents and 7 ids of 2 bytes"),
                                        HasSubstr("168 bytes")));
}

TEST_F(TokenShardTest, WriterRefusesIdsOutsideTheVocabulary) {
  TokenShardWriter writer(path("w.tokens"), {.vocab_size = 10, .tokenizer_hash = 1});
  writer.write(std::vector<std::int64_t>{1, 9});
  for (const std::int64_t bad : {std::int64_t{10}, std::int64_t{-1}}) {
    const std::vector<std::int64_t> ids = {1, bad};
    EXPECT_THAT(message_of([&] { writer.write(ids); }),
                AllOf(HasSubstr("outside the vocabulary"), HasSubstr("token 3"),
                      HasSubstr(std::to_string(bad))));
  }
  EXPECT_FALSE(fs::exists(path("w.tokens")));
}

}  // namespace
}  // namespace kha
