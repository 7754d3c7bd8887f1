#include "core/data/long_text.h"

namespace kha {
namespace {

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::size_t cut_long_text(std::string_view text) {
  for (std::size_t i = text.size() - 1; i > text.size() / 2; --i) {
    if (text[i - 1] == '\n' && is_letter(text[i])) return i;
  }
  constexpr std::size_t longest_character = 4;
  for (std::size_t i = text.size() - 1; i + longest_character >= text.size(); --i) {
    if (!continues_character(text[i])) return i;
  }
  return text.size();
}

}  // namespace kha
