// A file of token ids that says what it is: id width, vocabulary, tokenizer and documents.
//
// Layout, little endian:
//   0   8 bytes "KHATOKEN"
//   8   u32     version, 2
//   12  u32     id type: 2 = u16, 4 = u32 (the width in bytes)
//   16  u64     vocabulary size; every id is below it
//   24  u64     XXH3-64 of the tokenizer's tokenizer.json
//   32          zeros up to 64
//   64          the ids, then zeros up to a multiple of 8
//   ..  u64[]   documents + 1 offsets: document d is tokens [offset d, offset d+1)
//   ..  u64[]   where a flag says so: of every document, the tokens of its prompt
// and at the end of the file:
//   0   u64     tokens
//   8   u64     documents
//   16  u64     flags: 1 = documents have prompts
//   24  u64     XXH3-64 of the ids
//   32  u64     XXH3-64 of the offsets and prompts
//   40  u64     XXH3-64 of the first 64 bytes of the file and the 40 bytes before this number
//   48  8 bytes "KHATOEND"
// What is known only at the end stands at the end, so a shard is written from front to back without
// knowing how many tokens a document will have. Counts and offsets have 64 bits throughout. A
// document's end mark, where its tokenizer has one, is its last token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "kha/core/atomic_file.h"
#include "kha/core/checksum.h"
#include "kha/core/mapped_file.h"

namespace kha {

inline constexpr std::uint32_t token_shard_version = 2;

struct TokenShardKind {
  std::int64_t vocab_size = 0;  // up to 65,536 ids are stored as u16, more as u32
  std::uint64_t tokenizer_hash = 0;
};

// Writes a shard; the file appears under its name only with finish(). Memory grows by 16 bytes a
// document, not with the tokens.
class TokenShardWriter {
 public:
  // Errors: as FileSink.
  TokenShardWriter(const std::filesystem::path& path, const TokenShardKind& kind);

  // The next ids of the document that is being written, cut anywhere. Throws Error for an id
  // outside [0, vocab_size).
  void write(std::span<const std::int64_t> ids);
  void write(std::span<const std::uint32_t> ids);
  // The same, as another shard of this id width stores them; not checked here.
  void write_stored(std::span<const std::byte> ids);

  // Closes the document: at least one token was written since the last one, and the first
  // `prompt_tokens` of them are its prompt.
  void end_document(std::int64_t prompt_tokens = 0);

  std::int64_t tokens() const { return tokens_; }  // written so far

  // Every document must be closed.
  FileReport finish();

 private:
  template <class Id>
  void check(std::span<const Id> ids) const;
  void write_tables();
  void write_footer(std::uint64_t tables_checksum);

  std::filesystem::path path_;
  FileSink sink_;
  TokenShardKind kind_;
  std::int64_t tokens_ = 0;
  ChecksumStream ids_checksum_;
  std::vector<std::uint64_t> offsets_{0};
  std::vector<std::uint64_t> prompts_;
  bool any_prompt_ = false;
  std::vector<std::byte> header_;
  std::vector<std::byte> stored_;
};

// A shard mapped into memory. Ids are checked against the vocabulary whenever they are read.
class TokenShard {
 public:
  // Throws Error when the file is missing, is something else (named where it can be told), has
  // another version, is cut or too long, has header, offsets, prompts or footer that differ from
  // their checksums, has an id outside its vocabulary in the first 4096, or was made with another
  // tokenizer.
  static TokenShard open(const std::filesystem::path& path, std::uint64_t expected_tokenizer_hash);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int64_t id_width() const { return id_width_; }  // bytes: 2 or 4
  std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // Positions of document's first token and of the one behind its last; document in [0, documents).
  std::int64_t document_begin(std::int64_t document) const { return offset(document); }
  std::int64_t document_end(std::int64_t document) const { return offset(document + 1); }

  // Tokens at the start of the document that are its prompt: given, not to be learned.
  std::int64_t prompt_tokens(std::int64_t document) const;
  bool has_prompts() const { return has_prompts_; }

  // The document that holds a position; position in [0, tokens).
  std::int64_t document_of(std::int64_t position) const;

  // Throw Error for an id outside the vocabulary, naming file, byte offset and id. The positions
  // must lie in [0, tokens).
  std::int64_t token(std::int64_t position) const;
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const;

  // The ids as the file stores them, unchecked: id_width() bytes each.
  std::span<const std::byte> stored(std::int64_t begin, std::int64_t count) const;

  // Reads the whole shard and throws Error as copy() does.
  void check_all_ids() const;

  // Reads the whole shard and throws Error when its ids are not those that were written.
  void check_checksum() const;

 private:
  explicit TokenShard(MappedFile file) : file_(std::move(file)) {}

  void read_header();
  void read_footer();
  void check_size() const;
  void check_ends() const;
  void check_offsets() const;
  void check_prompts() const;
  std::int64_t offset(std::int64_t index) const;
  std::int64_t stored_id(std::int64_t position) const;
  std::int64_t footer_at(std::int64_t at) const;
  [[noreturn]] void fail_for_id(std::int64_t position, std::int64_t id) const;

  MappedFile file_;
  std::int64_t id_width_ = 0;
  std::int64_t vocab_size_ = 0;
  std::uint64_t tokenizer_hash_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  bool has_prompts_ = false;
  std::int64_t offsets_begin_ = 0;  // bytes
};

}  // namespace kha
