#include "core/store/wording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kha {
namespace {

constexpr std::size_t most_shown = 160;

// At most so many bytes, and no character cut in two.
std::string_view beginning(std::string_view text) {
  std::size_t end = std::min(text.size(), most_shown);
  const auto continues = [&] { return (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80; };
  while (end > 0 && end < text.size() && continues()) --end;
  return text.substr(0, end);
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : beginning(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > most_shown) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string listed(const std::vector<std::string>& items, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(items.size(), most); ++i) out += "\n    " + items[i];
  if (items.size() > most) out += fmt::format("\n    and {} more", items.size() - most);
  return out;
}

}  // namespace kha
