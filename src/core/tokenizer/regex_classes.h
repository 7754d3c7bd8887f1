// The character classes of regular expressions as ranges of code points.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kha {

// The inside of a bracket expression for PCRE2, as "\x{41}-\x{5a}". `name` is what stands in
// \p{..}: a general category, a group of them ("L"), or "Han"; or one of s, w, d. Nothing for a
// name that is not known. `negated` gives all other code points.
std::optional<std::string> class_ranges(std::string_view name, bool negated);

}  // namespace kha
