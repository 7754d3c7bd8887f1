#include "core/data/byte_stream.h"

#include <gmock/gmock.h>

#include "data/packed_files.h"
#include "data/text_files.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ByteStreamTest : public TextFiles {
 protected:
  // The content, read in pieces of that size.
  static std::string all_of(ByteStream& stream, std::size_t piece) {
    std::string text, buffer(piece, '\0');
    while (const std::size_t count = stream.read(buffer)) text.append(buffer, 0, count);
    return text;
  }
};

std::string words(std::size_t size) {
  std::string text;
  for (unsigned i = 0; text.size() < size; ++i) text += "word " + std::to_string(i * i) + "\n";
  return text;
}

TEST_F(ByteStreamTest, GivesTheTextOfPackedFiles) {
  const std::string text = words(700'000);
  for (const auto& [name, packed, compression] :
       {std::tuple{"a.gz", gzip(text), Compression::gzip},
        std::tuple{"a.zst", zstd(text), Compression::zstd},
        std::tuple{"a", text, Compression::none}}) {
    const auto file = add(name, packed);
    for (const std::size_t piece : {7u, 4096u, 1u << 20}) {
      const auto stream = open_stream(file, compression);
      EXPECT_EQ(all_of(*stream, piece), text) << name << piece;
      EXPECT_EQ(stream->file_bytes(), packed.size());
      EXPECT_EQ(stream->file_checksum(), xxh3_128(std::as_bytes(std::span(packed))));
    }
  }
}

TEST_F(ByteStreamTest, PackedPartsInOneFileAreOneText) {
  const auto gz = add("a.gz", gzip("one ") + gzip("") + gzip("two"));
  EXPECT_EQ(all_of(*open_stream(gz, Compression::gzip), 100), "one two");
  const auto zst = add("a.zst", zstd("one ") + zstd("") + zstd("two"));
  EXPECT_EQ(all_of(*open_stream(zst, Compression::zstd), 100), "one two");
}

TEST_F(ByteStreamTest, EveryCutOfAPackedFileIsSeen) {
  const std::string text = words(2000);
  for (const auto& [packed, compression] :
       {std::pair{gzip(text), Compression::gzip}, std::pair{zstd(text), Compression::zstd}}) {
    for (std::size_t size = 1; size < packed.size(); ++size) {
      const auto file = add("cut", packed.substr(0, size));
      EXPECT_THAT(message_of([&] { all_of(*open_stream(file, compression), 512); }),
                  AllOf(HasSubstr("is cut"), HasSubstr("cut, byte " + std::to_string(size)),
                        HasSubstr("fetch the file again")))
          << size;
    }
  }
}

TEST_F(ByteStreamTest, OtherBytesAreDamage) {
  for (const auto compression : {Compression::gzip, Compression::zstd}) {
    const auto file = add("a", "this is not packed at all");
    EXPECT_THAT(message_of([&] { all_of(*open_stream(file, compression), 64); }),
                AllOf(HasSubstr("is damaged"), HasSubstr("a, byte ")));
  }
}

}  // namespace
}  // namespace kha
