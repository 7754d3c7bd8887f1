#include "core/tokenizer/unicode_normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "core/tokenizer/unicode.h"
#include "core/tokenizer/unicode_tables.h"

namespace kha {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

// Stands for every character that is left alone, and for bytes that are none: a code point that
// never combines with another. What it stands for follows in a list of its own.
constexpr utf8proc_int32_t stand_in = 0x10FFFF;

struct Decomposed {
  CodePoints points;
  std::vector<char32_t> left_alone;  // by the stand-ins, in order
};

class CodePointSet {
 public:
  explicit CodePointSet(std::span<const CodePointRange> ranges) : bits_(end_of_code_points) {
    for (const auto& [first, last] : ranges) {
      std::fill(bits_.begin() + first, bits_.begin() + last + 1, true);
    }
  }
  bool has(char32_t value) const { return value < end_of_code_points && bits_[value]; }

 private:
  std::vector<bool> bits_;
};

bool is_normalised(char32_t value) {
  static const CodePointSet set(unicode_tables::normalised);
  return set.has(value);
}

bool is_unstable_in_nfc(char32_t value) {
  static const CodePointSet set(unicode_tables::unstable_in_nfc);
  return value >= 0x300 && set.has(value);
}

int combining_class(utf8proc_int32_t value) {
  return utf8proc_get_property(value)->combining_class;
}

int options_of(NormalForm form) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (compatible ? UTF8PROC_COMPAT : 0);
}

void decompose(char32_t value, int options, Decomposed& out) {
  if (!is_normalised(value)) {
    out.points.push_back(stand_in);
    out.left_alone.push_back(value);
    return;
  }
  constexpr utf8proc_ssize_t most = 32;  // the longest of all is 18
  utf8proc_int32_t parts[most];
  int boundclass = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(value), parts, most,
                                             static_cast<utf8proc_option_t>(options), &boundclass);
  out.points.insert(out.points.end(), parts, parts + count);
}

// Runs of marks by combining class, equal ones in their order.
void reorder(CodePoints& points) {
  for (auto begin = points.begin(); begin != points.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, points.end(), [](auto value) { return combining_class(value) == 0; });
    std::stable_sort(begin, end, [](auto left, auto right) {
      return combining_class(left) < combining_class(right);
    });
    begin = end;
  }
}

void append_normalised(std::string_view text, int options, std::string& out) {
  Decomposed decomposed;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    decompose(character.value, options, decomposed);
    at += character.length;
  }
  auto& [points, left_alone] = decomposed;
  reorder(points);
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (options & UTF8PROC_COMPOSE) {
    count = utf8proc_normalize_utf32(points.data(), count, static_cast<utf8proc_option_t>(options));
  }
  auto next = left_alone.begin();
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, points[i] == stand_in ? *next++ : static_cast<char32_t>(points[i]));
  }
}

// Only characters that are unstable, with the one before them, need the work.
std::string normalise_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0, previous = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!is_unstable_in_nfc(character.value)) {
      previous = at;
      at += character.length;
      continue;
    }
    const std::size_t begin = std::max(copied, previous);
    while (at < text.size() && is_unstable_in_nfc(character_at(text, at).value)) {
      at += character_at(text, at).length;
    }
    out += text.substr(copied, begin - copied);
    append_normalised(text.substr(begin, at - begin), options_of(NormalForm::nfc), out);
    copied = previous = at;
  }
  return out += text.substr(copied);
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  // Below U+0300, whose first byte is 0xCC, everything is NFC already.
  const auto low = [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; };
  std::size_t at = std::find_if_not(text.begin(), text.end(), low) - text.begin();
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (is_unstable_in_nfc(character.value)) return false;
    at += character.length;
  }
  return true;
}

std::string normalise(std::string_view text, NormalForm form) {
  if (form == NormalForm::nfc) return normalise_nfc(text);
  std::string out;
  append_normalised(text, options_of(form), out);
  return out;
}

}  // namespace kha
