// How often each piece of a text comes, before merges are learnt from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/word_scanner.h"
#include "kha/core/text_source.h"

namespace kha {

class WordCounts {
 public:
  struct Word {
    std::uint64_t hash;
    std::uint64_t text_at;
    std::uint32_t text_size;
    std::uint64_t count;
  };

  WordCounts() : slots_(std::size_t{1} << 12, none) {}
  void add(std::string_view word, std::uint64_t count = 1);
  void add(const WordCounts& other);

  const std::vector<Word>& words() const { return words_; }
  std::string_view text_of(const Word& word) const {
    return std::string_view(text_).substr(word.text_at, word.text_size);
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  void add(std::string_view word, std::uint64_t hash, std::uint64_t count);
  void grow();

  std::vector<std::uint32_t> slots_;  // indices of words_, open addressing, at most half full
  std::vector<Word> words_;
  std::string text_;
};

// The last place up to `text.size()` where every split pattern cuts and NFC changes nothing
// across: behind a letter, before what is neither letter nor mark. 0 where there is none.
std::size_t last_sure_cut(std::string_view text);

// Reads each document once, on several threads.
WordCounts count_words(const std::vector<TextDocument>& documents, SplitPattern pattern, bool nfc,
                       int threads, const ReadProgress& progress);

}  // namespace kha
