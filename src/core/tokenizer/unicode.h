// Characters: UTF-8 read one at a time, and the classes that tokenizers ask for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kha {

constexpr char32_t end_of_code_points = 0x110000;

// In the order of the generated table.
enum class Category : std::uint8_t {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,  // clang-format off
  Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Co, Cn,  // clang-format on
};
inline constexpr std::array category_names = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"};

// One character and the bytes it takes. A byte that begins no well-formed character stands for
// itself: `length` 1 and a value from end_of_code_points on, which is in no class.
struct Character {
  char32_t value;
  std::uint32_t length;

  bool valid() const { return value < end_of_code_points; }
};

// `at` must be below text.size(). Surrogates and overlong forms are not well-formed.
Character character_at(std::string_view text, std::size_t at);
// Appends the character; values from end_of_code_points on give back their byte.
void append_utf8(std::string& text, char32_t value);
// Where the last character of a text that is not empty begins.
std::size_t last_character(std::string_view text);

// Bits of class_of.
enum CharacterClass : std::uint8_t {
  class_letter = 1,    // \p{L}
  class_number = 2,    // \p{N}
  class_mark = 4,      // \p{M}
  class_space = 8,     // \s
  class_newline = 16,  // CR and LF
  class_upper = 32,    // \p{Lu} \p{Lt}, and with class_lower \p{Lm} \p{Lo} \p{M}
  class_lower = 64,    // \p{Ll}, and with class_upper as above
};

// A table of all code points, and one value more for what is not a character.
class CharacterClasses {
 public:
  static const CharacterClasses& get();
  std::uint8_t of(char32_t value) const {
    return value < end_of_code_points ? table_[value] : std::uint8_t{0};
  }

 private:
  CharacterClasses();
  std::array<std::uint8_t, end_of_code_points> table_;
};

Category category_of(char32_t value);  // Cn for what is not a character
bool is_space(char32_t value);         // \s
bool is_numeric(char32_t value);       // as the pre-tokenizer Digits
bool is_punctuation(char32_t value);   // as the pre-tokenizer Punctuation
bool is_word(char32_t value);          // \w of the pre-tokenizer Whitespace and of single_word

}  // namespace kha
