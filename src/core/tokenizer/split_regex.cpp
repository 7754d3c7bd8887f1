#include "core/tokenizer/split_regex.h"

#include "core/tokenizer/is_utf8.h"
#include "core/tokenizer/regex_classes.h"
#include "core/tokenizer/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

#include "kha/core/error.h"

namespace kha {
namespace {

// Goes through an expression once and writes it down again for PCRE2.
class Translation {
 public:
  Translation(std::string_view from, const std::string& where) : from_(from), where_(where) {}

  std::string text() {
    while (at_ < from_.size()) step();
    return std::move(to_);
  }

 private:
  void step() {
    const char c = from_[at_];
    if (c == '\\') return escape();
    if (c == '[') {
      if (in_class_ && from_.substr(at_, 2) != "[:") refuse("a class within a class", 1);
      if (in_class_) refuse("a POSIX class", 2);
      in_class_ = true;
      copy(from_.substr(at_, 2) == "[^" ? 2 : 1);
      if (at_ < from_.size() && from_[at_] == ']') refuse("a class that begins with ]", 1);
      return;
    }
    if (c == ']') in_class_ = false;
    if (in_class_ && from_.substr(at_, 2) == "&&") refuse("an intersection of classes", 2);
    if (!in_class_ && c == '{') return repetition();
    if (!in_class_ && c == '(') check_group();
    copy(1);
  }

  // {n}, {n,} and {n,m} are the same to both; a + behind them is not.
  void repetition() {
    const std::size_t end = from_.find('}', at_);
    const std::string_view counts = from_.substr(at_ + 1, end - at_ - 1);
    const bool good = end != std::string_view::npos && !counts.empty() && counts[0] != ',' &&
                      counts.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!good) refuse("a { that is no repetition", 1);
    copy(end + 1 - at_);
    if (at_ < from_.size() && from_[at_] == '+') refuse("a + behind a repetition", 1);
  }

  void check_group() {
    if (from_.substr(at_, 2) != "(?") return;
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (from_.substr(at_, known.size()) == known) return;
    }
    refuse("a group of this kind", 4);
  }

  void escape() {
    const char kind = at_ + 1 < from_.size() ? from_[at_ + 1] : '\0';
    if (kind == 'p' || kind == 'P') return property(kind == 'P');
    if (kind == 's' || kind == 'w' || kind == 'd') return put_class({&kind, 1}, false, 2);
    if (kind == 'S' || kind == 'W' || kind == 'D') {
      const char name = static_cast<char>(kind - 'A' + 'a');
      return put_class({&name, 1}, true, 2);
    }
    if (kind == 'x' || kind == 'u') return code_point(kind);
    const bool letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') ||
                        (kind >= '0' && kind <= '9') || kind == '\0';
    constexpr std::string_view same = "rntfvz";
    const bool anchor = kind == 'z' && in_class_;
    if (letter && (same.find(kind) == std::string_view::npos || anchor)) refuse("an escape", 2);
    // In PCRE2, \v is a class.
    if (kind == 'v') {
      to_ += "\\x0b";
      at_ += 2;
      return;
    }
    copy(2);
  }

  // \xHH, \x{H..} and \uHHHH
  void code_point(char kind) {
    const std::string_view rest = from_.substr(at_ + 2);
    std::size_t begin = 0, count = kind == 'u' ? 4 : 2, end = count;
    if (kind == 'x' && !rest.empty() && rest[0] == '{') {
      begin = 1;
      count = rest.find('}') == std::string_view::npos ? 0 : rest.find('}') - 1;
      end = count + 2;
    }
    const std::string_view digits = rest.substr(begin, count);
    if (digits.size() != count || count == 0 || count > 6 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      refuse("a code point", 2);
    }
    to_ += "\\x{" + std::string(digits) + "}";
    at_ += 2 + end;
  }

  // \p{L}, \P{L}, \p{^L}
  void property(bool negated) {
    const std::size_t end = from_.find('}', at_);
    if (from_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) refuse("a property", 2);
    std::string_view name = from_.substr(at_ + 3, end - at_ - 3);
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    put_class(name, negated, end + 1 - at_);
  }

  void put_class(std::string_view name, bool negated, std::size_t length) {
    const auto ranges = class_ranges(name, negated);
    if (!ranges) refuse("a property", length);
    to_ += in_class_ ? *ranges : "[" + *ranges + "]";
    at_ += length;
  }

  void copy(std::size_t count) {
    to_ += from_.substr(at_, count);
    at_ += count;
  }

  [[noreturn]] void refuse(const std::string& what, std::size_t length) {
    fail({.what = "the regular expression has " + what + " that is not read here",
          .where = where_ + ", character " + std::to_string(at_ + 1),
          .expected = "groups, alternatives, classes with general categories, \\s \\w \\d, counts, "
                      "looking ahead and behind",
          .found = std::string(from_.substr(at_, length)) + " in " + std::string(from_)});
  }

  std::string_view from_;
  const std::string& where_;
  std::string to_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct SplitRegex::Code {
  pcre2_code* compiled = nullptr;
  std::string where;

  Code() = default;
  Code(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }
};

std::string regex_for_pcre2(std::string_view expression, const std::string& where) {
  return Translation(expression, where).text();
}

SplitRegex::SplitRegex(std::string_view expression, const std::string& where) {
  const std::string text = regex_for_pcre2(expression, where);
  auto code = std::make_unique<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Oniguruma's ^ and $ stand at every line; its dot excludes LF only.
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  const std::uint32_t options = PCRE2_UTF | PCRE2_MULTILINE;
  code->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options,
                                 &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!code->compiled) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof message);
    fail({.what = "the regular expression is not one",
          .where = where,
          .found = std::string(expression),
          .cause = reinterpret_cast<const char*>(message)});
  }
  // Where there is no JIT for this processor, the interpreter gives the same matches.
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);
  code->where = where;
  code_ = std::move(code);
}

SplitRegex::~SplitRegex() = default;

namespace {

// PCRE2 would check the rest of the text before every match. A byte that is no character becomes a
// control character: like it, it is neither letter, number nor blank.
std::string without_invalid_bytes(std::string_view text) {
  std::string copy(text);
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid()) copy[at] = '\x1a';
    at += character.length;
  }
  return copy;
}

}  // namespace

bool SplitRegex::match(std::string_view text, std::size_t at, Span& found) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr));
  const auto run = [&](std::uint32_t options) {
    return pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
  };
  int count = run(0);
  // Compiled code has a fixed stack; the interpreter takes memory as it needs it.
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = run(PCRE2_NO_JIT);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) {
    fail({.what = "the regular expression gave up on a text",
          .where = code_->where + ", byte " + std::to_string(at) + " of a text of " +
                   std::to_string(text.size()),
          .cause = "a very long run that it has to search again and again (PCRE2 error " +
                   std::to_string(count) + ")"});
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
  found = {ends[0], ends[1], true};
  return true;
}

void SplitRegex::find(std::string_view text, Spans& spans) const {
  if (!is_utf8(text)) return find(without_invalid_bytes(text), spans);
  std::size_t copied = 0, at = 0;
  bool matched = false;
  Span found{};
  while (at <= text.size() && match(text, at, found)) {
    at = found.end;
    const bool empty = found.begin == found.end;
    if (empty) at += at < text.size() ? character_at(text, at).length : 1;
    // An empty match cuts the text, but not a second time where a match has just ended.
    if (empty && matched && found.end == copied) continue;
    if (copied < found.begin) spans.push_back({copied, found.begin, false});
    spans.push_back(found);
    copied = found.end;
    matched = true;
  }
  if (copied < text.size()) spans.push_back({copied, text.size(), false});
}

}  // namespace kha
