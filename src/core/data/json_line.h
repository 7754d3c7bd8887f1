// A line of JSON as a document.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "core/data/work_unit.h"
#include "kha/core/corpus.h"

namespace kha {

struct LineText {
  std::string prompt;
  std::string text;    // or the answer
  bool empty = false;  // null, or blanks only
};

// What is wrong with a line; `at` is a byte of it.
struct LineFault {
  std::string what;
  std::string expected;
  std::string found;
  std::size_t at = 0;
};

std::variant<LineText, LineFault> parse_line(std::string_view line, const DocumentKeys& keys);

}  // namespace kha
