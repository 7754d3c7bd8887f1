#include "core/tokenizer/word_scanner.h"

#include <array>

namespace kha {
namespace {

// Each line is one alternative of the regular expression; the scanner below tries them in this
// order.
const std::array<std::string, 4>& expressions() {
  static const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
  static const std::string newlines = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  static const std::array<std::string, 4> all = {
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      contractions + "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" +
          newlines,
      contractions + "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" +
          newlines,
      contractions + "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" +
          "[\\r\\n]*|" + newlines};
  return all;
}

constexpr char32_t long_s = 0x17F;  // equals an s where case does not count

// One piece of one text. The pattern is a template argument so that the tests on it cost nothing.
template <SplitPattern pattern>
class Scan {
 public:
  Scan(std::string_view text, const CharacterClasses& classes) : text_(text), classes_(classes) {}

  std::size_t end_of_piece(std::size_t at) const {
    const Seen first = see(at);
    if (first.value == '\'') {
      if (const std::size_t end = contraction(at)) return end;
    }
    if (first.is & word) return run(first.end, word);
    const bool gpt2 = pattern == SplitPattern::gpt2;
    const Seen second = see(first.end);
    const bool leads_word =
        gpt2 ? first.value == ' ' : !(first.is & (class_newline | class_number));
    if (leads_word && (second.is & word)) return run(second.end, word);
    if (first.is & class_number) return numbers(first.end);
    if (gpt2 && first.value == ' ' && (second.is & class_number)) return numbers(second.end);
    if (!(first.is & class_space)) return symbols(first.end);
    if (first.value == ' ' && second.end > first.end && !(second.is & not_symbol)) {
      return symbols(second.end);
    }
    return spaces(at);
  }

 private:
  static constexpr std::uint8_t word = pattern == SplitPattern::qwen35
                                           ? std::uint8_t{class_letter | class_mark}
                                           : std::uint8_t{class_letter};
  static constexpr std::uint8_t not_symbol = word | class_number | class_space;

  struct Seen {
    char32_t value;
    std::uint8_t is;  // CharacterClass bits; 0 behind the end
    std::size_t end;
  };

  Seen see(std::size_t at) const {
    if (at >= text_.size()) return {end_of_code_points, 0, at};
    const Character character = character_at(text_, at);
    return {character.value, classes_.of(character.value), at + character.length};
  }

  std::size_t run(std::size_t at, std::uint8_t wanted) const {
    while (at < text_.size()) {
      const Seen seen = see(at);
      if (!(seen.is & wanted)) break;
      at = seen.end;
    }
    return at;
  }

  std::size_t numbers(std::size_t at) const {
    if (pattern == SplitPattern::gpt2) return run(at, class_number);
    for (int more = pattern == SplitPattern::llama3 ? 2 : 0; more > 0; --more) {
      const Seen seen = see(at);
      if (!(seen.is & class_number)) break;
      at = seen.end;
    }
    return at;
  }

  std::size_t symbols(std::size_t at) const {
    while (at < text_.size()) {
      const Seen seen = see(at);
      if (seen.is & not_symbol) break;
      at = seen.end;
    }
    return pattern == SplitPattern::gpt2 ? at : run(at, class_newline);
  }

  // Blanks: to the last newline among them, else all but the last one where text follows.
  std::size_t spaces(std::size_t begin) const {
    std::size_t end = begin, last = begin, after_newline = begin;
    while (end < text_.size()) {
      const Seen seen = see(end);
      if (!(seen.is & class_space)) break;
      last = end;
      end = seen.end;
      if (seen.is & class_newline) after_newline = end;
    }
    if (pattern != SplitPattern::gpt2 && after_newline > begin) return after_newline;
    return end == text_.size() || last == begin ? end : last;
  }

  char32_t lower(std::size_t at) const {
    if (at >= text_.size()) return 0;
    const char32_t value = static_cast<unsigned char>(text_[at]);
    const bool folds = pattern != SplitPattern::gpt2 && value >= 'A' && value <= 'Z';
    return folds ? value + ('a' - 'A') : value;
  }

  // The end of 's 't 're 've 'm 'll 'd that begins at `at`, or 0.
  std::size_t contraction(std::size_t at) const {
    const char32_t first = lower(at + 1), second = lower(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l')) {
      return at + 3;
    }
    const Seen next = see(at + 1);
    return pattern != SplitPattern::gpt2 && next.value == long_s ? next.end : 0;
  }

  std::string_view text_;
  const CharacterClasses& classes_;
};

}  // namespace

const std::string& regex_of(SplitPattern pattern) {
  return expressions()[static_cast<std::size_t>(pattern)];
}

std::optional<SplitPattern> known_pattern(std::string_view regex) {
  for (const auto pattern :
       {SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::qwen2, SplitPattern::qwen35}) {
    if (regex == regex_of(pattern)) return pattern;
  }
  return std::nullopt;
}

std::size_t WordScanner::end_of_piece(std::string_view text, std::size_t at) const {
  switch (pattern_) {
    case SplitPattern::gpt2:
      return Scan<SplitPattern::gpt2>(text, *classes_).end_of_piece(at);
    case SplitPattern::llama3:
      return Scan<SplitPattern::llama3>(text, *classes_).end_of_piece(at);
    case SplitPattern::qwen2:
      return Scan<SplitPattern::qwen2>(text, *classes_).end_of_piece(at);
    case SplitPattern::qwen35:
      break;
  }
  return Scan<SplitPattern::qwen35>(text, *classes_).end_of_piece(at);
}

}  // namespace kha
