// The split patterns of GPT-2, Llama 3, Qwen and their like, by hand: what the regular expression
// of a tokenizer.json matches, some ten times faster than a regular expression can.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/tokenizer/unicode.h"

namespace kha {

enum class SplitPattern { gpt2, llama3, qwen2, qwen35 };

// The regular expression, as it stands in tokenizer.json.
const std::string& regex_of(SplitPattern pattern);
// The pattern whose regular expression this is, spelled the same.
std::optional<SplitPattern> known_pattern(std::string_view regex);

// Every character belongs to a piece, so one behaviour is like another: pieces follow each other.
class WordScanner {
 public:
  explicit WordScanner(SplitPattern pattern) : pattern_(pattern) {}
  // Where the piece that begins at `at` ends; `at` must be below text.size().
  std::size_t end_of_piece(std::string_view text, std::size_t at) const;

 private:
  SplitPattern pattern_;
  const CharacterClasses* classes_ = &CharacterClasses::get();
};

}  // namespace kha
