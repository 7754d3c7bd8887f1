// Texts that consist of characters alone.
#pragma once

#include <string_view>

namespace kha {

// Whether every byte belongs to a well-formed character.
bool is_utf8(std::string_view text);

}  // namespace kha
