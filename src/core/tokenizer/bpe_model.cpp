#include "core/tokenizer/bpe_model.h"

#include <fmt/format.h>

#include "core/store/wording.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/unicode.h"
#include "kha/core/error.h"

namespace kha {
namespace {

// Far above any vocabulary there is; ids must leave room below MergeTable's free key.
constexpr std::int64_t most_ids = std::int64_t{1} << 28;

// Fields with their path are made only for messages: there are hundreds of thousands of merges.
std::pair<std::string, std::string> two_sides(const JsonField& merges, std::size_t i) {
  const auto& merge = merges.value()[i];
  if (merge.is_array()) {
    if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
      merges.at(i).refuse("a merge has two sides", "a list of two texts");
    }
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (!merge.is_string()) merges.at(i).refuse("this is no merge", "a text or a list of two texts");
  std::string line = merge.get<std::string>();
  if (line.ends_with('\r')) line.pop_back();
  const std::size_t blank = line.find(' ');
  const bool two = blank != std::string::npos && blank > 0 && blank + 1 < line.size();
  if (!two || line.find(' ', blank + 1) != std::string::npos) {
    merges.at(i).refuse("this merge cannot be told apart into two sides",
                        "two texts with one blank between them; tokens that contain a blank need "
                        "the other spelling, a list of two texts");
  }
  return {line.substr(0, blank), line.substr(blank + 1)};
}

}  // namespace

BpeModel::BpeModel(const JsonField& field, bool byte_level)
    : byte_level_(byte_level), file_(field.where()) {
  const JsonField type = field.object().at("type");
  const bool untyped = type.is_null() && !field.at("merges").is_null();
  if (!untyped && type.text() != "BPE") {
    type.refuse("this kind of model is not read here", "BPE");
  }
  refuse_options(field);
  read_vocabulary(field.at("vocab"));
  read_merges(field.at("merges"));
  byte_fallback_ = field.at("byte_fallback").flag(false);
  fuse_unknown_ = field.at("fuse_unk").flag(false);
  if (const JsonField unknown = field.at("unk_token"); !unknown.is_null()) {
    unknown_ = find(unknown.text());
    if (!unknown_) unknown.refuse("unk_token is not in the vocabulary", "a token of /model/vocab");
  }
  read_alphabet();
  if (!field.at("ignore_merges").flag(false)) return;
  for (const auto& [token, id] : vocabulary_) {
    if (!byte_level_) whole_pieces_.emplace(token, id);
    if (const auto bytes = byte_level_ ? bytes_of_letters(token) : std::nullopt) {
      whole_pieces_.emplace(*bytes, id);
    }
  }
}

void BpeModel::refuse_options(const JsonField& field) const {
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!field.at(key).text("").empty()) {
      field.at(key).refuse("word-internal marks are not read here", "null or an empty text");
    }
  }
  const JsonField dropout = field.at("dropout");
  if (!dropout.is_null() && dropout.value() != 0.0) {
    dropout.refuse("dropout gives other ids each time", "null or 0");
  }
}

void BpeModel::read_vocabulary(const JsonField& field) {
  const auto& entries = field.object().value();
  vocabulary_.reserve(entries.size());
  std::unordered_map<std::int64_t, const std::string*> token_of;
  token_of.reserve(entries.size());
  for (const auto& [token, value] : entries.items()) {
    const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    if (id < 0 || id >= most_ids) {
      field.at(token).refuse("this is no id", "a whole number from 0 to 2^28 - 1");
    }
    if (const auto [other, is_new] = token_of.emplace(id, &token); !is_new) {
      field.at(token).refuse("two tokens have the same id, the other is " + shown(*other->second),
                             "one token an id");
    }
    vocabulary_[token] = static_cast<std::uint32_t>(id);
  }
}

void BpeModel::read_merges(const JsonField& field) {
  const std::size_t count = field.array().size();
  merges_ = MergeTable(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [left, right] = two_sides(field, i);
    const auto left_id = find(left), right_id = find(right), id = find(left + right);
    if (!left_id || !right_id || !id) {
      const std::string& missing = !left_id ? left : !right_id ? right : left + right;
      field.at(i).refuse("a merge needs a token that is not in the vocabulary: " + shown(missing),
                         "both sides and their sum in /model/vocab");
    }
    merges_.set(*left_id, *right_id, {static_cast<std::uint32_t>(i), *id});
  }
}

void BpeModel::read_alphabet() {
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    const auto id = find(byte_level_ ? byte_as_letter(value) : byte_piece(value));
    byte_ids_[byte] = id ? std::int64_t{*id} : -1;
  }
}

std::optional<std::uint32_t> BpeModel::find(std::string_view token) const {
  const auto found = vocabulary_.find(token);
  return found == vocabulary_.end() ? std::nullopt : std::optional(found->second);
}

void BpeModel::keep_from_text(std::string_view token) {
  const auto bytes = byte_level_ ? bytes_of_letters(token) : std::string(token);
  if (bytes) whole_pieces_.erase(*bytes);
}

void BpeModel::encode(std::string_view piece, std::vector<std::uint32_t>& symbols,
                      MergeScratch& scratch) const {
  symbols.clear();
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    symbols.push_back(whole->second);
    return;
  }
  byte_level_ ? spell_bytes(piece, symbols) : spell_characters(piece, symbols);
  merge_symbols(merges_, symbols, scratch);
}

void BpeModel::spell_bytes(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
  symbols.reserve(piece.size());
  bool after_unknown = false;
  for (const char byte : piece) {
    const std::int64_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0 && !unknown_) fail_without_token({&byte, 1});
    if (id >= 0 || !after_unknown || !fuse_unknown_) {
      symbols.push_back(id >= 0 ? static_cast<std::uint32_t>(id) : *unknown_);
    }
    after_unknown = id < 0;
  }
}

// What has no token waits as unknown until the next token that has one; byte pieces go ahead of it,
// as they do in the package.
void BpeModel::spell_characters(std::string_view piece, std::vector<std::uint32_t>& symbols) const {
  bool waiting = false;
  for (std::size_t at = 0; at < piece.size();) {
    const Character character = character_at(piece, at);
    const std::string_view text = piece.substr(at, character.length);
    at += character.length;
    if (const auto id = character.valid() ? find(text) : std::nullopt) {
      if (waiting) symbols.push_back(*unknown_);
      waiting = false;
      symbols.push_back(*id);
    } else if (byte_fallback_ && fall_back(text, symbols)) {
      continue;
    } else if (!unknown_) {
      fail_without_token(text);
    } else {
      if (waiting && !fuse_unknown_) symbols.push_back(*unknown_);
      waiting = true;
    }
  }
  if (waiting) symbols.push_back(*unknown_);
}

// All bytes of a character, or none.
bool BpeModel::fall_back(std::string_view character, std::vector<std::uint32_t>& symbols) const {
  for (const char byte : character) {
    if (byte_ids_[static_cast<unsigned char>(byte)] < 0) return false;
  }
  for (const char byte : character) {
    symbols.push_back(static_cast<std::uint32_t>(byte_ids_[static_cast<unsigned char>(byte)]));
  }
  return true;
}

void BpeModel::fail_without_token(std::string_view character) const {
  std::string bytes;
  for (const char byte : character) {
    bytes += fmt::format("{}0x{:02X}", bytes.empty() ? "" : " ", static_cast<unsigned char>(byte));
  }
  fail({.what = "the text has a character that this tokenizer cannot spell",
        .where = file_,
        .expected = "a token for it, for its bytes, or an unk_token",
        .found = shown(character) + " (" + bytes + ")",
        .cause = "the tokenizer was trained without the alphabet of all bytes",
        .next = "train one with: kha tokenizer train FILES --vocab-size N --to DIR"});
}

}  // namespace kha
