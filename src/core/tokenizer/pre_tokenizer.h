// The "pre_tokenizer" of a tokenizer.json: a text cut into the pieces that BPE never merges across.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/json_field.h"
#include "core/tokenizer/text_pattern.h"
#include "core/tokenizer/word_scanner.h"

namespace kha {

struct PieceList {
  struct Piece {
    std::string_view text;
    bool at_start;  // of the whole text
  };
  std::vector<Piece> pieces;
  std::deque<std::string> owned;  // texts of pieces that steps have made
};

class PreTokenizer {
 public:
  explicit PreTokenizer(const JsonField& field);  // null leaves a text whole

  // Bytes are the alphabet of the model, not characters.
  bool byte_level() const { return byte_level_; }
  // Set where the pieces of a text are those of this scanner and nothing else happens to them.
  const std::optional<WordScanner>& scanner() const { return scanner_; }

  // Cuts the one piece in `list` into the pieces of its text, none of them empty.
  void split(PieceList& list) const;

 private:
  using Step = std::function<void(PieceList&)>;
  void add(const JsonField& field);
  void add_split(const JsonField& field);
  void add_byte_level(const JsonField& field);
  void add_metaspace(const JsonField& field);
  void add_cut(SplitBehaviour behaviour, FindMatches find);
  void add_scanner(SplitPattern pattern);

  std::vector<Step> steps_;
  std::optional<WordScanner> scanner_;
  bool byte_level_ = false;
};

}  // namespace kha
