#include <algorithm>

#include "core/data/id_reader.h"
#include "kha/core/token_shard.h"

namespace kha {
namespace {

class ShardReader : public FileReader {
 public:
  ShardReader(TokenShard shard, std::uint32_t file) : shard_(std::move(shard)), file_(file) {
    shard_.check_checksum();
  }

  bool read(Unit& unit) override {
    if (document_ == shard_.documents()) return false;
    const std::int64_t begin = shard_.document_begin(document_);
    const std::int64_t end = shard_.document_end(document_);
    position_ = std::max(position_, begin);
    const auto count =
        std::min<std::int64_t>(end - position_, static_cast<std::int64_t>(unit_size / 4));
    const bool ends = position_ + count == end;
    unit.pieces.push_back({.file = file_,
                           .line = static_cast<std::uint64_t>(document_) + 1,
                           .offset = static_cast<std::uint64_t>(position_),
                           .begin = unit.text.size(),
                           .size = static_cast<std::size_t>(count) * 4,
                           .begins = position_ == begin,
                           .ends = ends,
                           .prompt_ids = shard_.prompt_tokens(document_)});
    for (std::int64_t i = position_; i < position_ + count; ++i) {
      const auto id = static_cast<std::uint32_t>(shard_.token(i));
      unit.text.append(reinterpret_cast<const char*>(&id), sizeof id);
    }
    position_ += count;
    document_ += ends;
    return true;
  }

  std::uint64_t file_bytes() const override {
    return static_cast<std::uint64_t>(position_ * shard_.id_width());
  }
  Checksum128 file_checksum() const override {
    ChecksumStream128 checksum;
    read_in_pieces(shard_.path(), [&](std::string_view piece) {
      checksum.update(std::as_bytes(std::span(piece)));
    });
    return checksum.digest();
  }

 private:
  TokenShard shard_;
  std::uint32_t file_;
  std::int64_t document_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<FileReader> open_shard_reader(const std::filesystem::path& path, std::uint32_t file,
                                              const Tokenizer& tokenizer) {
  return std::make_unique<ShardReader>(TokenShard::open(path, tokenizer.hash()), file);
}

}  // namespace kha
