// A finished stretch of the text: the shards of both sides, and a record that says that they are
// whole. An interrupted preparation goes on behind the last of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/data/work_unit.h"
#include "kha/core/corpus.h"
#include "kha/core/token_shard.h"

namespace kha {

// The document that a part breaks off in.
struct OpenDocument {
  bool open = false;
  std::int64_t tokens = 0;  // of it, so far
  bool operator==(const OpenDocument&) const = default;
};

struct PartRecord {
  std::int64_t index = 0;
  std::uint64_t text_checksum = 0;  // XXH3-64 of the text it was made from
  SplitSummary train;               // documents that end here; tokens and bytes that lie here
  SplitSummary validation;
  std::int64_t empty_documents = 0;
  BadLines bad_lines;
  TextCounts text;
  std::string joins;  // the side whose first document here goes on from an earlier part, or ""
  OpenDocument open;  // at its end
};

class PartFolder {
 public:
  explicit PartFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path shard(std::int64_t index, bool held_out) const;
  std::filesystem::path record(std::int64_t index) const;

  // The record of a part whose shards are whole; nothing when a part is missing or damaged.
  std::optional<PartRecord> read(std::int64_t index, std::uint64_t tokenizer_hash) const;
  void write(const PartRecord& record) const;

  // Removes every file that is not one of the first `count` parts.
  void keep_first(std::int64_t count) const;

 private:
  std::filesystem::path folder_;
};

// Writes one part. The shards appear with finish(), the record after them.
class PartWriter {
 public:
  PartWriter(const PartFolder& folder, std::int64_t index, const Tokenizer& tokenizer,
             OpenDocument open);

  void add(const Unit& unit, const EncodedUnit& encoded);
  PartRecord finish();

 private:
  void add_piece(const EncodedPiece& piece, std::span<const std::uint32_t> ids);
  void end_document(const EncodedPiece& piece);
  TokenShardWriter& side(bool held_out) { return held_out ? validation_ : train_; }
  SplitSummary& summary(bool held_out) { return held_out ? record_.validation : record_.train; }

  const PartFolder& folder_;
  std::int64_t end_id_;
  TokenShardWriter train_;
  TokenShardWriter validation_;
  PartRecord record_;
  ChecksumStream text_checksum_;
  OpenDocument open_;
  bool open_here_ = false;  // the open document has tokens in this part
  bool open_held_out_ = false;
};

}  // namespace kha
