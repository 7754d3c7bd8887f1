#include "core/tokenizer/regex_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

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

// Code points at which any of the classes can begin or end; between them nothing changes.
std::vector<char32_t> borders() {
  std::vector<char32_t> all = {0, 0xD800, 0xE000, end_of_code_points};
  for (const std::uint32_t run : unicode_tables::category_runs) all.push_back(run >> 8);
  for (const auto ranges : {unicode_tables::regex_word_beside_letters, unicode_tables::han}) {
    for (const auto& [first, last] : ranges) all.insert(all.end(), {first, last + 1});
  }
  for (char32_t value = 0; value <= 0x3000; ++value) {
    if (is_space(value)) all.insert(all.end(), {value, value + 1});
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

bool is_surrogate(char32_t value) { return value >= 0xD800 && value < 0xE000; }

}  // namespace

std::optional<std::string> class_ranges(std::string_view name, bool negated) {
  static const std::vector<char32_t> all = borders();
  const Member is_member = members(name);
  if (!is_member) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const auto wanted = [&](std::size_t at) {
      return at + 1 < all.size() && !is_surrogate(all[at]) && is_member(all[at]) != negated;
    };
    if (!wanted(i)) continue;
    const char32_t first = all[i];
    while (wanted(i + 1)) ++i;
    text += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(first),
                        static_cast<unsigned>(all[i + 1] - 1));
  }
  return text;
}

}  // namespace kha
