// The "added_tokens" of a tokenizer.json: texts that are one token wherever they stand, found
// before anything else is done to a text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/bpe_model.h"
#include "core/tokenizer/json_field.h"
#include "core/tokenizer/text_normaliser.h"

namespace kha {

struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool special = false;      // a mark that is not text
  bool single_word = false;  // only where no letter of a word touches it
  bool lstrip = false;       // takes the blanks before it along
  bool rstrip = false;       // takes the blanks behind it along
  bool normalized = false;   // looked for in the normalised text
  std::string spelled =
      {};  // what it is decoded as: the normalised text, where it is looked for so
};

// Finds the longest of several texts at the first place where any is.
class TextTrie {
 public:
  void add(std::string_view text, std::uint32_t value);  // the first of equal texts stands
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    std::size_t begin;
    std::size_t end;
    std::uint32_t value;
  };
  // From `at` on; false when there is none.
  bool find(std::string_view text, std::size_t at, Match& match) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> next;
    std::int64_t value = -1;
  };
  std::vector<Node> nodes_{1};
  std::array<bool, 256> begins_{};
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Throws Error for a file whose ids are not those that the package would give.
  AddedTokens(const JsonField& field, const BpeModel& model, const TextNormaliser& normaliser);

  const std::vector<AddedToken>& all() const { return tokens_; }

  // Calls `text` and `token` in order. Tokens for which `takes` is false stay text, and nothing
  // that overlaps them is found either.
  using OnText = std::function<void(std::string_view text, std::size_t begin)>;
  using OnToken = std::function<void(const AddedToken& token)>;
  using Takes = std::function<bool(const AddedToken& token)>;
  void split(std::string_view text, bool normalised, const Takes& takes, const OnText& on_text,
             const OnToken& on_token) const;
  bool any(bool normalised) const { return !(normalised ? normalised_ : plain_).empty(); }

 private:
  std::vector<AddedToken> tokens_;
  TextTrie plain_;
  TextTrie normalised_;
};

}  // namespace kha
