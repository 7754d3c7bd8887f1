#include "core/tokenizer/is_utf8.h"

#include "core/tokenizer/unicode.h"

namespace kha {

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid()) return false;
    at += character.length;
  }
  return true;
}

}  // namespace kha
