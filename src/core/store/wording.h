// Names and numbers from files as they appear in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kha {

// Text from a file, cut to a readable length, control characters escaped: a hostile file must not
// fill or steer the terminal.
std::string shown(std::string_view text);

// "[4, 64]"
std::string shape_text(std::span<const std::int64_t> shape);

// One item a line, indented, at most `most` of them, then "and 12 more".
std::string listed(const std::vector<std::string>& items, std::size_t most = 8);

}  // namespace kha
