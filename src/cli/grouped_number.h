// Large numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace kha::cli {

// 1234567 -> 1,234,567
inline std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::int64_t at = static_cast<std::int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

}  // namespace kha::cli
