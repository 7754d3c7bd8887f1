#include "core/data/unit_encoder.h"

#include <algorithm>
#include <string_view>

#include "core/data/held_out_split.h"

namespace kha {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

class UnitEncoder {
 public:
  UnitEncoder(const Unit& unit, const TextSource& source, const CorpusOptions& options)
      : unit_(unit), source_(source), options_(options) {}

  EncodedUnit run() {
    for (const Piece& piece : unit_.pieces) add(piece);
    return std::move(result_);
  }

 private:
  void add(const Piece& piece) {
    const std::string_view text = std::string_view(unit_.text).substr(piece.begin, piece.size);
    if (piece.begins && piece.ends && is_blank(text)) {
      ++result_.empty;
      return;
    }
    add_document(piece, 0, encode(text), static_cast<std::int64_t>(text.size()));
  }

  void add_document(const Piece& piece, std::int64_t prompt, std::int64_t tokens,
                    std::int64_t bytes) {
    const TextDocument& document = source_.documents[piece.file];
    result_.pieces.push_back({.tokens = tokens,
                              .prompt_tokens = prompt,
                              .bytes = bytes,
                              .held_out = is_held_out(document.relative_path, piece.line, options_),
                              .begins = piece.begins,
                              .ends = piece.ends});
  }

  // Appends the ids of a text and returns how many they are.
  std::int64_t encode(std::string_view text) {
    ids_.clear();
    options_.tokenizer->encode(text, ids_);
    const std::size_t before = result_.ids.size();
    result_.ids.resize(before + ids_.size());
    std::ranges::transform(ids_, result_.ids.begin() + static_cast<std::ptrdiff_t>(before),
                           [](std::int64_t id) { return static_cast<std::uint32_t>(id); });
    return static_cast<std::int64_t>(ids_.size());
  }

  const Unit& unit_;
  const TextSource& source_;
  const CorpusOptions& options_;
  EncodedUnit result_;
  std::vector<std::int64_t> ids_;
};

}  // namespace

EncodedUnit encode_unit(const Unit& unit, const TextSource& source, const CorpusOptions& options) {
  return UnitEncoder(unit, source, options).run();
}

}  // namespace kha
