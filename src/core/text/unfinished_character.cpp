#include "core/text/unfinished_character.h"

#include <algorithm>

namespace kha {
namespace {

unsigned byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

bool between(unsigned value, unsigned least, unsigned most) {
  return value >= least && value <= most;
}

// Bytes of the character that `lead` begins; 1 for what begins none of several bytes.
std::size_t length_of(unsigned lead) {
  if (between(lead, 0xC2, 0xDF)) return 2;
  if (between(lead, 0xE0, 0xEF)) return 3;
  if (between(lead, 0xF0, 0xF4)) return 4;
  return 1;
}

// The second byte is limited after some leads: no overlong forms, no surrogates, nothing above
// U+10FFFF (Unicode, table of well-formed UTF-8 byte sequences).
bool second_fits(unsigned lead, unsigned second) {
  switch (lead) {
    case 0xE0:
      return between(second, 0xA0, 0xBF);
    case 0xED:
      return between(second, 0x80, 0x9F);
    case 0xF0:
      return between(second, 0x90, 0xBF);
    case 0xF4:
      return between(second, 0x80, 0x8F);
    default:
      return between(second, 0x80, 0xBF);
  }
}

bool begins_character(std::string_view tail) {
  const unsigned lead = byte_at(tail, 0);
  if (tail.size() >= length_of(lead)) return false;
  if (tail.size() >= 2 && !second_fits(lead, byte_at(tail, 1))) return false;
  return tail.size() < 3 || between(byte_at(tail, 2), 0x80, 0xBF);
}

}  // namespace

std::size_t unfinished_character(std::string_view text) {
  for (std::size_t count = std::min<std::size_t>(3, text.size()); count > 0; --count) {
    if (begins_character(text.substr(text.size() - count))) return count;
  }
  return 0;
}

}  // namespace kha
