#include "core/tokenizer/unicode.h"

#include <algorithm>
#include <memory>

#include "core/tokenizer/unicode_tables.h"

namespace kha {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_in(std::span<const CodePointRange> ranges, char32_t value) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), value,
      [](char32_t wanted, const CodePointRange& range) { return wanted < range.first; });
  return after != ranges.begin() && value <= std::prev(after)->last;
}

std::uint8_t class_of(Category category, char32_t value) {
  if (is_space(value)) {
    const bool newline = value == '\n' || value == '\r';
    return newline ? class_space | class_newline : class_space;
  }
  switch (category) {
    case Category::Lu:
    case Category::Lt:
      return class_letter | class_upper;
    case Category::Ll:
      return class_letter | class_lower;
    case Category::Lm:
    case Category::Lo:
      return class_letter | class_upper | class_lower;
    case Category::Mn:
    case Category::Mc:
    case Category::Me:
      return class_mark | class_upper | class_lower;
    case Category::Nd:
    case Category::Nl:
    case Category::No:
      return class_number;
    default:
      return 0;
  }
}

bool is_letter_mark_or_number(char32_t value) {
  const Category category = category_of(value);
  return category <= Category::Nl || category == Category::Pc;
}

Character invalid(unsigned byte) { return {end_of_code_points + byte, 1}; }

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80) return {first, 1};
  const unsigned length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return invalid(first);
  char32_t value = first & (0xFFu >> (length + 1));
  for (unsigned i = 1; i < length; ++i) {
    const unsigned next = byte_at(text, at + i);
    if ((next & 0xC0) != 0x80) return invalid(first);
    value = value << 6 | (next & 0x3F);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (overlong || surrogate || value >= end_of_code_points) return invalid(first);
  return {value, length};
}

void append_utf8(std::string& text, char32_t value) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value >= end_of_code_points) return add(value - end_of_code_points);
  if (value < 0x80) return add(value);
  if (value >= 0x10000) {
    add(0xF0 | value >> 18);
    add(0x80 | (value >> 12 & 0x3F));
  } else if (value >= 0x800) {
    add(0xE0 | value >> 12);
  }
  add(value >= 0x800 ? 0x80 | (value >> 6 & 0x3F) : 0xC0 | value >> 6);
  add(0x80 | (value & 0x3F));
}

std::size_t last_character(std::string_view text) {
  for (std::size_t length = std::min<std::size_t>(4, text.size()); length > 1; --length) {
    if (character_at(text, text.size() - length).length == length) return text.size() - length;
  }
  return text.size() - 1;
}

const CharacterClasses& CharacterClasses::get() {
  static const std::unique_ptr<const CharacterClasses> classes(new CharacterClasses);
  return *classes;
}

CharacterClasses::CharacterClasses() {
  const auto runs = unicode_tables::category_runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const char32_t first = runs[i] >> 8;
    const char32_t end = i + 1 < runs.size() ? runs[i + 1] >> 8 : end_of_code_points;
    const auto category = static_cast<Category>(runs[i] & 0xFF);
    std::fill(table_.begin() + first, table_.begin() + end, class_of(category, end_of_code_points));
  }
  for (char32_t value = 0; value <= 0x3000; ++value) {
    if (is_space(value)) table_[value] = class_of(Category::Zs, value);
  }
}

Category category_of(char32_t value) {
  if (value >= end_of_code_points) return Category::Cn;
  const auto runs = unicode_tables::category_runs;
  const auto after = std::upper_bound(runs.begin(), runs.end(), value << 8 | 0xFF);
  return static_cast<Category>(*std::prev(after) & 0xFF);
}

bool is_space(char32_t value) {
  if (value < 0x80) return value == ' ' || (value >= '\t' && value <= '\r');
  return value == 0x85 || value == 0xA0 || value == 0x1680 ||
         (value >= 0x2000 && value <= 0x200A) || value == 0x2028 || value == 0x2029 ||
         value == 0x202F || value == 0x205F || value == 0x3000;
}

bool is_numeric(char32_t value) {
  const bool number = CharacterClasses::get().of(value) & class_number;
  return number != is_in(unicode_tables::numeric_beside_n, value);
}

bool is_punctuation(char32_t value) { return is_in(unicode_tables::punctuation, value); }

bool is_word(char32_t value) {
  return is_letter_mark_or_number(value) != is_in(unicode_tables::word_beside_letters, value);
}

}  // namespace kha
