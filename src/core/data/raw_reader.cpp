#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/data/byte_stream.h"
#include "core/data/file_kind.h"
#include "core/data/id_reader.h"
#include "kha/core/error.h"
#include "kha/core/mapped_file.h"

namespace kha {
namespace {

std::size_t width_of(const std::string& raw_type, const std::filesystem::path& path) {
  if (raw_type == "uint16") return 2;
  if (raw_type == "uint32") return 4;
  fail({.what = "the width of raw token ids is not known",
        .where = path.string(),
        .expected = "data.raw_type = \"uint16\" or \"uint32\"",
        .found = raw_type.empty() ? "none" : raw_type,
        .cause = "a .bin file holds ids without a header, and nothing in it says how wide they are",
        .next = "--set data.raw_type=uint16, as the program that wrote the file did"});
}

void check_kind(const MappedFile& file) {
  const std::string kind = describe_file_kind(file.bytes());
  const std::string_view start(reinterpret_cast<const char*>(file.bytes().data()),
                               std::min<std::size_t>(file.bytes().size(), 8));
  const bool shard = start == "KHATOKEN";
  if (!shard && (kind.find("ids") != std::string::npos || kind == "something else")) return;
  fail({.what = "the file is not raw token ids",
        .where = file.path().string(),
        .expected = "ids of two or four bytes and nothing else",
        .found = shard ? "a token shard of kha" : kind,
        .cause = "the file's name ends in .bin, and its first bytes are those of another form",
        .next = shard ? "name it *.tokens" : "give the ids alone, or the text itself"});
}

template <class Id>
Id id_at(std::span<const std::byte> bytes, std::size_t index) {
  Id id;
  std::memcpy(&id, bytes.data() + index * sizeof(Id), sizeof(Id));
  return id;
}

// Ids of four bytes read as two: every second one is the upper half of an id, which is 0 or tiny.
void check_width(const MappedFile& file, std::size_t width) {
  const std::size_t size = file.bytes().size();
  if (size % width != 0) {
    fail({.what = "the raw token file does not hold whole ids",
          .where = file.path().string(),
          .expected = "a multiple of " + std::to_string(width) + " bytes",
          .found = std::to_string(size) + " bytes",
          .cause =
              "the file was cut, has a header, or data.raw_type is not what it was written as"});
  }
  constexpr std::size_t least = 8, most = 4096;
  const std::size_t pairs = std::min(size / 4, most);
  if (width == 4 || pairs < least) return;
  std::uint16_t largest_upper = 0, largest_lower = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    largest_lower = std::max(largest_lower, id_at<std::uint16_t>(file.bytes(), 2 * i));
    largest_upper = std::max(largest_upper, id_at<std::uint16_t>(file.bytes(), 2 * i + 1));
  }
  constexpr std::uint16_t upper_half = 16;  // no vocabulary of today reaches 2^20
  if (largest_upper >= upper_half || largest_lower < upper_half) return;
  fail({.what = "these ids look four bytes wide, and data.raw_type says two",
        .where = file.path().string(),
        .expected = "ids of 2 bytes",
        .found = "every second one below " + std::to_string(upper_half) + " in the first " +
                 std::to_string(2 * pairs),
        .next = "--set data.raw_type=uint32"});
}

class RawReader : public FileReader {
 public:
  RawReader(const std::filesystem::path& path, std::uint32_t file, const Tokenizer& tokenizer,
            std::size_t width)
      : path_(path),
        stream_(open_stream(path, Compression::none)),
        file_(file),
        width_(width),
        vocab_size_(tokenizer.vocab_size()),
        end_id_(tokenizer.end_id()),
        buffer_(std::size_t{1} << 18) {}

  bool read(Unit& unit) override {
    if (ended_) return false;
    const std::size_t count = stream_->read(buffer_);
    ended_ = count < buffer_.size();
    begin_piece(unit);
    for (std::size_t i = 0; i < count / width_; ++i) {
      const std::uint32_t id = next_id(i);
      unit.text.append(reinterpret_cast<const char*>(&id), sizeof id);
      if (id == end_id_) {
        end_piece(unit, true);
        begin_piece(unit);
      }
    }
    end_piece(unit, ended_);
    return true;
  }

  std::uint64_t file_bytes() const override { return stream_->file_bytes(); }
  Checksum128 file_checksum() const override { return stream_->file_checksum(); }

 private:
  std::uint32_t next_id(std::size_t index) {
    const auto bytes = std::as_bytes(std::span<const char>(buffer_));
    const std::uint32_t id =
        width_ == 2 ? id_at<std::uint16_t>(bytes, index) : id_at<std::uint32_t>(bytes, index);
    if (id >= vocab_size_) fail_for_id(id);
    ++ids_;
    return id;
  }

  [[noreturn]] void fail_for_id(std::uint32_t id) const {
    fail({.what = "a token id is outside the vocabulary",
          .where = path_.string() + ", byte " + std::to_string(ids_ * width_) + " (token " +
                   std::to_string(ids_) + ")",
          .expected = "ids from 0 to " + std::to_string(vocab_size_ - 1) + " (vocabulary size " +
                      std::to_string(vocab_size_) + ")",
          .found = "id " + std::to_string(id),
          .cause = "the ids come from another tokenizer, are of another width than data.raw_type "
                   "says, or stand behind a header",
          .next = "check data.tokenizer and data.raw_type"});
  }

  void begin_piece(const Unit& unit) { piece_begin_ = unit.text.size(); }

  void end_piece(Unit& unit, bool ends) {
    const std::size_t size = unit.text.size() - piece_begin_;
    if (size == 0 && (begins_ || !ends)) return;  // nothing between two documents
    unit.pieces.push_back({.file = file_,
                           .line = documents_ + 1,
                           .offset = ids_ * width_,
                           .begin = piece_begin_,
                           .size = size,
                           .begins = begins_,
                           .ends = ends});
    documents_ += ends;
    begins_ = ends;
  }

  std::filesystem::path path_;
  std::unique_ptr<ByteStream> stream_;
  std::uint32_t file_;
  std::size_t width_;
  std::int64_t vocab_size_;
  std::int64_t end_id_;
  std::vector<char> buffer_;
  std::size_t piece_begin_ = 0;
  std::uint64_t ids_ = 0;
  std::uint64_t documents_ = 0;
  bool begins_ = true;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<FileReader> open_raw_reader(const std::filesystem::path& path, std::uint32_t file,
                                            const Tokenizer& tokenizer,
                                            const std::string& raw_type) {
  const std::size_t width = width_of(raw_type, path);
  const MappedFile mapped = MappedFile::open(path);
  check_kind(mapped);
  check_width(mapped, width);
  return std::make_unique<RawReader>(path, file, tokenizer, width);
}

}  // namespace kha
