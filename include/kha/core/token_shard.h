// A file of token ids that says what it is: id width, vocabulary, tokenizer and documents.
//
// Layout, little endian:
//   0   8 bytes "KHATOKEN"
//   8   u32     version, 1
//   12  u32     id type: 2 = u16, 4 = u32 (the width in bytes)
//   16  u64     vocabulary size; every id is below it
//   24  u64     XXH3-64 of the tokenizer's tokenizer.json
//   32  u64     tokens
//   40  u64     documents
//   48  u64[]   documents + 1 offsets: document d is tokens [offset d, offset d+1)
//   ..          zeros up to a multiple of 64, then the ids
// Counts and offsets have 64 bits throughout. A document's end mark is its last token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "kha/core/atomic_file.h"
#include "kha/core/mapped_file.h"

namespace kha {

inline constexpr std::uint32_t token_shard_version = 1;

struct TokenShardPlan {
  std::int64_t vocab_size = 0;  // up to 65,536 ids are stored as u16, more as u32
  std::uint64_t tokenizer_hash = 0;
  // Tokens of every document, end mark included, in order. Known beforehand, so that the file is
  // written from front to back.
  std::span<const std::int64_t> document_lengths;
};

// Writes a shard in constant memory; the file appears under its name only with finish().
class TokenShardWriter {
 public:
  // Errors: as FileSink. The plan is used here only.
  TokenShardWriter(const std::filesystem::path& path, const TokenShardPlan& plan);

  // The next ids, cut anywhere. Throws Error for an id outside [0, vocab_size), and for more tokens
  // than planned.
  void write(std::span<const std::int64_t> ids);

  // Throws Error when fewer tokens came than planned; then no file is left.
  void finish();

 private:
  [[noreturn]] void fail_for_length() const;

  std::filesystem::path path_;
  FileSink sink_;
  std::int64_t vocab_size_;
  std::int64_t planned_ = 0;
  std::int64_t written_ = 0;
  std::vector<std::byte> stored_;
};

// A shard mapped into memory. Ids are checked against the vocabulary whenever they are read.
class TokenShard {
 public:
  // Throws Error when the file is missing, is something else (named where it can be told), has
  // another version, is cut or too long, has offsets that do not rise from 0 to its tokens, has an
  // id outside its vocabulary in the first 4096, or was made with another tokenizer.
  static TokenShard open(const std::filesystem::path& path, std::uint64_t expected_tokenizer_hash);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // Positions of document's first token and of the one behind its last; document in [0, documents).
  std::int64_t document_begin(std::int64_t document) const { return offset(document); }
  std::int64_t document_end(std::int64_t document) const { return offset(document + 1); }

  // The document that holds a position; position in [0, tokens).
  std::int64_t document_of(std::int64_t position) const;

  // Throw Error for an id outside the vocabulary, naming file, byte offset and id. The positions
  // must lie in [0, tokens).
  std::int64_t token(std::int64_t position) const;
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const;

  // Reads the whole shard and throws Error as copy() does.
  void check_all_ids() const;

 private:
  explicit TokenShard(MappedFile file) : file_(std::move(file)) {}

  void read_header();
  void check_size() const;
  void check_offsets() const;
  std::int64_t offset(std::int64_t index) const;
  std::int64_t stored_id(std::int64_t position) const;
  [[noreturn]] void fail_for_id(std::int64_t position, std::int64_t id) const;

  MappedFile file_;
  std::int64_t id_width_ = 0;
  std::int64_t vocab_size_ = 0;
  std::uint64_t tokenizer_hash_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t ids_begin_ = 0;  // bytes
};

}  // namespace kha
