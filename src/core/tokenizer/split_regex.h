// A regular expression of a tokenizer.json, run by PCRE2 with the character classes of the
// `tokenizers` package: \p{..}, \s, \w and \d are written out as ranges of our own tables, since
// PCRE2's are of another Unicode version.
//
// The package reads these expressions with Oniguruma. What means something else there, or is not
// understood here, is refused with its place in the expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/tokenizer/text_splitter.h"

namespace kha {

class SplitRegex {
 public:
  // `where` names file and JSON path in messages. Throws Error.
  SplitRegex(std::string_view expression, const std::string& where);
  ~SplitRegex();

  // Matches and gaps, in order; a match can be empty. May be called by several threads.
  void find(std::string_view text, Spans& spans) const;

 private:
  bool match(std::string_view text, std::size_t at, Span& found) const;

  struct Code;
  std::unique_ptr<const Code> code_;
};

// The expression as PCRE2 is given it.
std::string regex_for_pcre2(std::string_view expression, const std::string& where);

}  // namespace kha
