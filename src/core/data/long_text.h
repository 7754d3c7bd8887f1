// Where a text that is too long to be tokenised at once is cut.
#pragma once

#include <cstddef>
#include <string_view>

namespace kha {

// A document up to this size is tokenised as a whole. A longer one is cut, where it can be behind
// the end of a line that a letter follows: the split patterns of byte-level tokenizers cut there
// too, so that the ids are those of the whole.
inline constexpr std::size_t most_whole = std::size_t{4} << 20;

// How much of a text of most_whole bytes is one piece: up to the last place in its second half
// where a line ends and a letter follows, or else to the last whole character. At least 1.
std::size_t cut_long_text(std::string_view text);

}  // namespace kha
