// The "pattern" of Split and Replace: a plain text, or a regular expression.
#pragma once

#include <functional>
#include <string_view>

#include "core/tokenizer/json_field.h"
#include "core/tokenizer/text_splitter.h"

namespace kha {

// Appends all of a text as matches and gaps.
using FindMatches = std::function<void(std::string_view text, Spans& spans)>;

FindMatches matches_of_text(std::string pattern);
// {"String": ..} or {"Regex": ..}
FindMatches matches_of(const JsonField& pattern);

}  // namespace kha
