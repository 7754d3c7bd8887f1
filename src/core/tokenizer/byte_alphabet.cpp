#include "core/tokenizer/byte_alphabet.h"

#include <fmt/format.h>

#include "core/tokenizer/unicode.h"

namespace kha {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<char32_t, 256> make_letters() {
  std::array<char32_t, 256> letters;
  char32_t next_free = 256;
  for (int byte = 0; byte < 256; ++byte) {
    letters[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next_free++;
  }
  return letters;
}

// By letter; -1 for a letter of no byte.
std::array<int, 256 + 68> make_bytes() {
  std::array<int, 256 + 68> bytes;
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[byte_letters()[byte]] = byte;
  return bytes;
}

}  // namespace

const std::array<char32_t, 256>& byte_letters() {
  static const std::array<char32_t, 256> letters = make_letters();
  return letters;
}

std::string byte_as_letter(unsigned char byte) {
  std::string letter;
  append_utf8(letter, byte_letters()[byte]);
  return letter;
}

std::string bytes_as_letters(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes)
    append_utf8(letters, byte_letters()[static_cast<unsigned char>(byte)]);
  return letters;
}

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  static const std::array<int, 256 + 68> bytes_of = make_bytes();
  std::string bytes;
  for (std::size_t at = 0; at < letters.size();) {
    const Character letter = character_at(letters, at);
    if (letter.value >= bytes_of.size() || bytes_of[letter.value] < 0) return std::nullopt;
    bytes += static_cast<char>(bytes_of[letter.value]);
    at += letter.length;
  }
  return bytes;
}

std::string byte_piece(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<unsigned char> byte_of_piece(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char digit : token.substr(3, 2)) {
    const bool number = digit >= '0' && digit <= '9';
    const char low = static_cast<char>(digit | 0x20);
    if (!number && (low < 'a' || low > 'f')) return std::nullopt;
    value = value * 16 + (number ? digit - '0' : low - 'a' + 10);
  }
  return static_cast<unsigned char>(value);
}

}  // namespace kha
