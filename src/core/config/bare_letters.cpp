#include "core/config/bare_letters.h"

#include <algorithm>
#include <string>

namespace kha {
namespace {

// Behind the string that begins at `at`: three quotes end a text of lines, one a text of one line.
std::size_t behind_string(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const std::size_t width = toml.substr(at).starts_with(std::string_view("\"\"\"")) ||
                                    toml.substr(at).starts_with(std::string_view("'''"))
                                ? 3
                                : 1;
  for (at += width; at < toml.size(); ++at) {
    if (toml[at] == '\\' && quote == '"') {
      ++at;
    } else if (toml.substr(at, width) == std::string(width, quote)) {
      return at + width;
    } else if (toml[at] == '\n' && width == 1) {
      return at;  // it does not end, which the parser says
    }
  }
  return toml.size();
}

}  // namespace

std::optional<std::size_t> bare_letter_beyond_ascii(std::string_view toml) {
  for (std::size_t at = 0; at < toml.size();) {
    const char byte = toml[at];
    if (byte == '#') {
      at = std::min(toml.find('\n', at), toml.size());
    } else if (byte == '"' || byte == '\'') {
      at = behind_string(toml, at);
    } else if (static_cast<unsigned char>(byte) >= 0x80) {
      return at;
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace kha
