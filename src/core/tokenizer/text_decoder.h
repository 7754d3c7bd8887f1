// The "decoder" of a tokenizer.json: the text that tokens spell.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/json_field.h"

namespace kha {

class TextDecoder {
 public:
  explicit TextDecoder(const JsonField& field);

  // What a token spells wherever it stands. Bytes are bytes, whether they make characters or not.
  std::string spelled(std::string_view token) const;
  // The same for the first token of a text, which can lose the marks of its blanks.
  std::string spelled_first(std::string_view token) const;
  // What else falls away at both ends of a whole text.
  void trim(std::string& text) const;
  bool separates_tokens() const { return separates_tokens_; }

 private:
  using TokenStep = std::function<std::string(std::string_view)>;
  struct Strip {
    std::string content;
    std::int64_t start;
    std::int64_t stop;
  };
  void add(const JsonField& field);
  void add_strip(const JsonField& field);

  std::vector<TokenStep> steps_;
  std::vector<Strip> strips_;
  std::string first_mark_;  // falls away in the first token
  bool fused_ = false;
  bool separates_tokens_ = false;  // without a decoder the package puts a blank between tokens
};

}  // namespace kha
