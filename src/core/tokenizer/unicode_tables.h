// The tables that scripts/unicode_tables.py writes, as they are; unicode.h is what others ask.
#pragma once

#include <cstdint>
#include <span>

namespace kha {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

namespace unicode_tables {

// Where a general category begins that lasts to the next entry: code point << 8 | Category.
extern const std::span<const std::uint32_t> category_runs;

// Members, or those that are in one of two sets and not in the other.
extern const std::span<const CodePointRange> numeric_beside_n;           // what Digits takes, \p{N}
extern const std::span<const CodePointRange> punctuation;                // what Punctuation takes
extern const std::span<const CodePointRange> regex_word_beside_letters;  // \w; L, M, Nd, Nl, Pc
extern const std::span<const CodePointRange> word_beside_letters;  // \w of Whitespace; the same
extern const std::span<const CodePointRange> han;                  // \p{Han}
extern const std::span<const CodePointRange> normalised;           // normalisation does something
extern const std::span<const CodePointRange> unstable_in_nfc;      // NFC can change or move them

}  // namespace unicode_tables
}  // namespace kha
