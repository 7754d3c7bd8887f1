// What TOML allows inside quotes and comments alone.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace kha {

// Where the first byte beyond ASCII stands outside quotes and comments; none: there is none. The
// parser of toml++ is not defined there (its table of blanks ends in a place called unreachable for
// letters such as U+00E4), so it must not see one.
std::optional<std::size_t> bare_letter_beyond_ascii(std::string_view toml);

}  // namespace kha
