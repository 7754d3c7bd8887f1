#include "core/tokenizer/regex_classes.h"

#include <fmt/format.h>

#include <functional>

#include "core/tokenizer/unicode.h"
#include "core/tokenizer/unicode_tables.h"

namespace kha {
namespace {

using Member = std::function<bool(char32_t)>;

bool is_in(std::span<const CodePointRange> ranges, char32_t value) {
  for (const auto& [first, last] : ranges) {
    if (value <= last) return value >= first;
  }
  return false;
}

bool is_regex_word(char32_t value) {
  const Category category = category_of(value);
  return (category <= Category::Nl || category == Category::Pc) !=
         is_in(unicode_tables::regex_word_beside_letters, value);
}

bool is_category(std::string_view name) {
  for (const std::string_view category : category_names) {
    if (category == name || (name.size() == 1 && category[0] == name[0])) return true;
  }
  return false;
}

Member members(std::string_view name) {
  if (name == "s") return is_space;
  if (name == "w") return is_regex_word;
  if (name == "d") name = "Nd";
  if (name == "Han") return [](char32_t value) { return is_in(unicode_tables::han, value); };
  if (!is_category(name)) return {};
  return [name](char32_t value) {
    const std::string_view category = category_names[static_cast<std::size_t>(category_of(value))];
    return category.substr(0, name.size()) == name;
  };
}

bool is_surrogate(char32_t value) { return value >= 0xD800 && value < 0xE000; }

}  // namespace

std::optional<std::string> class_ranges(std::string_view name, bool negated) {
  const Member is_member = members(name);
  if (!is_member) return std::nullopt;
  std::string text;
  const auto wanted = [&](char32_t value) {
    return value < end_of_code_points && !is_surrogate(value) && is_member(value) != negated;
  };
  for (char32_t value = 0; value < end_of_code_points; ++value) {
    if (!wanted(value)) continue;
    const char32_t first = value;
    while (wanted(value + 1)) ++value;
    text += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(first),
                        static_cast<unsigned>(value));
  }
  return text;
}

}  // namespace kha
