// Where a text ends in the middle of a UTF-8 character.
#pragma once

#include <cstddef>
#include <string_view>

namespace kha {

// The bytes at the end of `text`, 0 to 3, that are the beginning of a well-formed character and
// not yet the whole of one. Bytes that no further byte can make well-formed are not counted.
std::size_t unfinished_character(std::string_view text);

}  // namespace kha
