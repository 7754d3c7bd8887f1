#include "kha/core/token_shard.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>

#include "core/data/file_kind.h"
#include "core/data/shard_layout.h"
#include "kha/core/error.h"

namespace kha {
namespace {

namespace layout = shard_layout;

constexpr const char* prepare_again =
    "if kha prepared it, delete that cache folder and the next run makes it again; a shard of your "
    "own is to be made again from its text";

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::int64_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

[[noreturn]] void fail_damaged(const std::filesystem::path& path, std::int64_t at,
                               std::string expected, std::string found) {
  fail({.what = "the token shard is damaged",
        .where = path.string() + ", byte " + std::to_string(at),
        .expected = std::move(expected),
        .found = std::move(found),
        .cause = "the file was cut or changed after it was written",
        .next = prepare_again});
}

void check_magic(const MappedFile& file) {
  const std::string_view start(reinterpret_cast<const char*>(file.bytes().data()),
                               std::min(file.bytes().size(), layout::magic.size()));
  if (start == layout::magic) return;
  fail({.what = "the file is not a token shard",
        .where = file.path().string(),
        .expected = "a file that starts with " + std::string(layout::magic),
        .found = describe_file_kind(file.bytes()),
        .cause = "token files without kha's header do not say how wide their ids are or which "
                 "tokenizer made them",
        .next = "give the text itself as data; it is prepared on the first run"});
}

void check_version(const MappedFile& file) {
  const auto found = number_at<std::uint32_t>(file.bytes(), layout::version_at);
  if (found == token_shard_version) return;
  fail({.what = "the token shard has another version",
        .where = file.path().string() + ", byte " + std::to_string(layout::version_at),
        .expected = std::to_string(token_shard_version),
        .found = std::to_string(found),
        .cause = "another version of kha wrote it",
        .next = prepare_again});
}

// A count of the header that must not exceed `most`.
std::int64_t count_at(const MappedFile& file, std::int64_t at, std::uint64_t most,
                      const std::string& name) {
  const auto count = number_at<std::uint64_t>(file.bytes(), at);
  if (count > most) {
    fail_damaged(file.path(), at, "at most " + std::to_string(most) + " " + name,
                 std::to_string(count));
  }
  return static_cast<std::int64_t>(count);
}

}  // namespace

TokenShard TokenShard::open(const std::filesystem::path& path,
                            std::uint64_t expected_tokenizer_hash) {
  TokenShard shard(MappedFile::open(path));
  check_magic(shard.file_);
  shard.read_header();
  shard.read_footer();
  shard.check_size();
  shard.check_ends();
  shard.check_offsets();
  shard.check_prompts();
  if (shard.tokenizer_hash_ != expected_tokenizer_hash) {
    fail({.what = "the token shard was made with another tokenizer than the model's",
          .where = path.string(),
          .expected = "tokenizer " + to_hex(expected_tokenizer_hash),
          .found = "tokenizer " + to_hex(shard.tokenizer_hash_),
          .cause = "the tokenizer of the model changed, or the shard belongs to another model",
          .next = "prepare the text again with the tokenizer of this model"});
  }
  constexpr std::int64_t first_block = 4096;
  for (std::int64_t i = 0; i < std::min(first_block, shard.tokens_); ++i) shard.token(i);
  return shard;
}

void TokenShard::read_header() {
  const auto size = static_cast<std::int64_t>(file_.bytes().size());
  constexpr std::int64_t least = layout::header_size + layout::footer_size + 8;
  if (size < least) {
    fail_damaged(path(), 0, "at least " + std::to_string(least) + " bytes", std::to_string(size));
  }
  check_version(file_);
  id_width_ = number_at<std::uint32_t>(file_.bytes(), layout::id_type_at);
  if (id_width_ != 2 && id_width_ != 4) {
    fail_damaged(path(), layout::id_type_at, "id type 2 (u16) or 4 (u32)",
                 std::to_string(id_width_));
  }
  vocab_size_ = count_at(file_, layout::vocab_size_at, layout::most_vocab, "ids in the vocabulary");
  tokenizer_hash_ = number_at<std::uint64_t>(file_.bytes(), layout::tokenizer_hash_at);
}

std::int64_t TokenShard::footer_at(std::int64_t at) const {
  return static_cast<std::int64_t>(file_.bytes().size()) - layout::footer_size + at;
}

void TokenShard::read_footer() {
  const std::string_view end(
      reinterpret_cast<const char*>(file_.bytes().data()) + footer_at(layout::end_magic_at),
      layout::end_magic.size());
  if (end != layout::end_magic) {
    fail_damaged(path(), footer_at(layout::end_magic_at),
                 "a file that ends with " + std::string(layout::end_magic), "another end");
  }
  // Counts are bounded by the file's size before anything is computed from them.
  const auto size = static_cast<std::int64_t>(file_.bytes().size());
  tokens_ = count_at(file_, footer_at(layout::tokens_at), size / id_width_, "tokens");
  documents_ = count_at(file_, footer_at(layout::documents_at), size / 8, "documents");
  has_prompts_ = count_at(file_, footer_at(layout::flags_at), layout::has_prompts, "as flags") != 0;
  offsets_begin_ = layout::offsets_begin(tokens_, id_width_);
}

void TokenShard::check_size() const {
  const auto size = static_cast<std::int64_t>(file_.bytes().size());
  const std::int64_t expected =
      offsets_begin_ + layout::tables_size(documents_, has_prompts_) + layout::footer_size;
  if (size == expected) return;
  fail_damaged(path(), std::min(size, expected),
               std::to_string(expected) + " bytes: " + std::to_string(documents_) +
                   " documents and " + std::to_string(tokens_) + " ids of " +
                   std::to_string(id_width_) + " bytes",
               std::to_string(size) + " bytes");
}

// Header, tables and footer are small beside the ids, so they are checked at every opening.
void TokenShard::check_ends() const {
  const auto compare = [this](std::int64_t at, std::uint64_t found, const char* of) {
    const auto written = number_at<std::uint64_t>(file_.bytes(), at);
    if (written == found) return;
    fail_damaged(path(), at, "checksum " + to_hex(written) + " of the " + of, to_hex(found));
  };
  ChecksumStream ends;
  ends.update(file_.bytes().first(layout::header_size));
  ends.update(file_.bytes().subspan(footer_at(0), layout::ends_checksum_at));
  compare(footer_at(layout::ends_checksum_at), ends.digest(), "header and the counts");
  const auto tables = file_.bytes().subspan(offsets_begin_, footer_at(0) - offsets_begin_);
  compare(footer_at(layout::tables_checksum_at), xxh3_64(tables), "document offsets");
}

void TokenShard::check_checksum() const {
  const auto written = number_at<std::uint64_t>(file_.bytes(), footer_at(layout::ids_checksum_at));
  const std::uint64_t found = xxh3_64(stored(0, tokens_));
  if (written == found) return;
  fail_damaged(path(), layout::header_size, "ids with checksum " + to_hex(written), to_hex(found));
}

// A checksum is no defence against a file that was made wrong, so what is relied on is checked too.
void TokenShard::check_offsets() const {
  std::int64_t before = -1;
  for (std::int64_t i = 0; i <= documents_; ++i) {
    const std::int64_t now = offset(i);
    const bool right_end = (i > 0 || now == 0) && (i < documents_ || now == tokens_);
    if (now <= before || !right_end) {
      fail_damaged(
          path(), offsets_begin_ + 8 * i,
          "document offsets that rise from 0 to " + std::to_string(tokens_),
          "offset " + std::to_string(i) + " is " + std::to_string(static_cast<std::uint64_t>(now)));
    }
    before = now;
  }
}

void TokenShard::check_prompts() const {
  for (std::int64_t i = 0; has_prompts_ && i < documents_; ++i) {
    const std::int64_t tokens = document_end(i) - document_begin(i);
    const auto prompt = static_cast<std::uint64_t>(prompt_tokens(i));
    if (prompt <= static_cast<std::uint64_t>(tokens)) continue;
    fail_damaged(path(), offsets_begin_ + 8 * (documents_ + 1 + i),
                 "a prompt of at most " + std::to_string(tokens) + " tokens",
                 std::to_string(prompt) + " in document " + std::to_string(i));
  }
}

std::int64_t TokenShard::prompt_tokens(std::int64_t document) const {
  assert(document >= 0 && document < documents_);
  if (!has_prompts_) return 0;
  return number_at<std::int64_t>(file_.bytes(), offsets_begin_ + 8 * (documents_ + 1 + document));
}

std::span<const std::byte> TokenShard::stored(std::int64_t begin, std::int64_t count) const {
  assert(begin >= 0 && count >= 0 && begin <= tokens_ - count);
  return file_.bytes().subspan(layout::header_size + begin * id_width_, count * id_width_);
}

std::int64_t TokenShard::offset(std::int64_t index) const {
  assert(index >= 0 && index <= documents_);
  return number_at<std::int64_t>(file_.bytes(), offsets_begin_ + 8 * index);
}

std::int64_t TokenShard::document_of(std::int64_t position) const {
  assert(position >= 0 && position < tokens_);
  std::int64_t first = 0, last = documents_ - 1;
  while (first < last) {
    const std::int64_t middle = first + (last - first) / 2;
    if (document_end(middle) <= position) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

std::int64_t TokenShard::stored_id(std::int64_t position) const {
  const std::int64_t at = layout::header_size + position * id_width_;
  return id_width_ == 2 ? std::int64_t{number_at<std::uint16_t>(file_.bytes(), at)}
                        : std::int64_t{number_at<std::uint32_t>(file_.bytes(), at)};
}

std::int64_t TokenShard::token(std::int64_t position) const {
  assert(position >= 0 && position < tokens_);
  const std::int64_t id = stored_id(position);
  if (id >= vocab_size_) fail_for_id(position, id);
  return id;
}

void TokenShard::copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const {
  assert(begin >= 0 && count >= 0 && begin <= tokens_ - count);
  for (std::int64_t i = 0; i < count; ++i) out[i] = token(begin + i);
}

void TokenShard::check_all_ids() const {
  for (std::int64_t i = 0; i < tokens_; ++i) token(i);
}

void TokenShard::fail_for_id(std::int64_t position, std::int64_t id) const {
  fail({.what = "a token id is outside the vocabulary",
        .where = path().string() + ", byte " +
                 std::to_string(layout::header_size + position * id_width_) + " (token " +
                 std::to_string(position) + ")",
        .expected = "ids from 0 to " + std::to_string(vocab_size_ - 1) + " (vocabulary size " +
                    std::to_string(vocab_size_) + ")",
        .found = "id " + std::to_string(id),
        .cause = "the ids come from another tokenizer, or the file was changed",
        .next = prepare_again});
}

}  // namespace kha
