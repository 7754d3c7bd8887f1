#include "kha/core/error.h"

#include <fmt/format.h>

#include <utility>

#include "core/tokenizer/unicode.h"

namespace kha {
namespace {

// Names and values come from files, which must not steer the terminal: controls other than the line
// feed of a list are written out, and so are bytes that are no UTF-8.
std::string printable(const std::string& part) {
  std::string out;
  for (std::size_t at = 0; at < part.size();) {
    const Character next = character_at(part, at);
    const bool control = next.value < 0x20 || (next.value >= 0x7f && next.value < 0xa0);
    if ((control && next.value != '\n') || !next.valid()) {
      for (std::size_t i = 0; i < next.length; ++i) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(part[at + i]));
      }
    } else {
      out.append(part, at, next.length);
    }
    at += next.length;
  }
  return out;
}

void add_part(std::string& text, const char* label, const std::string& part) {
  if (!part.empty()) text += std::string("\n  ") + label + printable(part);
}

}  // namespace

std::string to_text(const Diagnosis& diagnosis) {
  std::string text = printable(diagnosis.what);
  add_part(text, "where:    ", diagnosis.where);
  add_part(text, "expected: ", diagnosis.expected);
  add_part(text, "found:    ", diagnosis.found);
  add_part(text, "cause:    ", diagnosis.cause);
  add_part(text, "next:     ", diagnosis.next);
  return text;
}

Error::Error(Diagnosis diagnosis, ExitCode code)
    : std::runtime_error(to_text(diagnosis)), diagnosis_(std::move(diagnosis)), code_(code) {}

void fail(Diagnosis diagnosis, ExitCode code) { throw Error(std::move(diagnosis), code); }

}  // namespace kha
