// The "model" of a tokenizer.json: vocabulary, merges, and what becomes of what is in neither.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokenizer/json_field.h"
#include "core/tokenizer/merge_symbols.h"
#include "core/tokenizer/merge_table.h"

namespace kha {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using Vocabulary = std::unordered_map<std::string, std::uint32_t, StringHash, std::equal_to<>>;

class BpeModel {
 public:
  // `byte_level` says that pieces come as raw bytes, which the vocabulary writes as letters.
  BpeModel(const JsonField& field, bool byte_level);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::optional<std::uint32_t> find(std::string_view token) const;
  // Bytes never spell these with `ignore_merges`: they are marks, not text.
  void keep_from_text(std::string_view token);

  // `symbols` becomes the ids of a piece that is not empty. Throws Error when the piece has
  // something that no token spells, which the package would leave out without a word.
  void encode(std::string_view piece, std::vector<std::uint32_t>& symbols,
              MergeScratch& scratch) const;

 private:
  void read_vocabulary(const JsonField& field);
  void read_merges(const JsonField& field);
  void read_alphabet();
  void refuse_options(const JsonField& field) const;
  void spell_bytes(std::string_view piece, std::vector<std::uint32_t>& symbols) const;
  void spell_characters(std::string_view piece, std::vector<std::uint32_t>& symbols) const;
  bool fall_back(std::string_view character, std::vector<std::uint32_t>& symbols) const;
  [[noreturn]] void fail_without_token(std::string_view character) const;

  bool byte_level_;
  std::string file_;
  Vocabulary vocabulary_;
  Vocabulary whole_pieces_;  // with ignore_merges: pieces that are a token as they stand
  MergeTable merges_{0};
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  std::optional<std::uint32_t> unknown_;
  std::array<std::int64_t, 256> byte_ids_;  // byte-level letters, or byte pieces; -1 without
};

}  // namespace kha
