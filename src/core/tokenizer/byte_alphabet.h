// The visible characters that byte-level BPE writes bytes as.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace kha {

// Printable Latin-1 stands for itself (the soft hyphen, 0xAD, is not visible); the other 68 bytes
// take the code points from 256 on, in order.
const std::array<char32_t, 256>& byte_letters();

// The byte as UTF-8 of its letter.
std::string byte_as_letter(unsigned char byte);
std::string bytes_as_letters(std::string_view bytes);
// Nothing when a character of `letters` stands for no byte.
std::optional<std::string> bytes_of_letters(std::string_view letters);

// "<0x0A>", as SentencePiece writes a byte; and back.
std::string byte_piece(unsigned char byte);
std::optional<unsigned char> byte_of_piece(std::string_view token);

}  // namespace kha
