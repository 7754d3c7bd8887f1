// A text file as one document, in pieces where it is long.
#include "core/data/text_reader.h"

#include <algorithm>
#include <string_view>

namespace kha {
namespace {

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// How much of a full buffer is one piece: up to the last place in its second half where a line ends
// and a letter follows, or else to the last whole character.
std::size_t cut(std::string_view text) {
  for (std::size_t i = text.size() - 1; i > text.size() / 2; --i) {
    if (text[i - 1] == '\n' && is_letter(text[i])) return i;
  }
  constexpr std::size_t longest_character = 4;
  for (std::size_t i = text.size() - 1; i + longest_character >= text.size(); --i) {
    if (!continues_character(text[i])) return i;
  }
  return text.size();
}

}  // namespace

TextReader::TextReader(std::unique_ptr<ByteStream> stream, std::uint32_t file)
    : stream_(std::move(stream)), file_(file) {}

// Grows with the file: most files are far below the limit.
void TextReader::fill() {
  constexpr std::size_t first_step = std::size_t{1} << 16;
  while (!ended_ && rest_.size() < most_whole) {
    const std::size_t before = rest_.size();
    rest_.resize(std::min(most_whole, before + std::max(first_step, before)));
    const std::size_t count = stream_->read(std::span(rest_).subspan(before));
    ended_ = before + count < rest_.size();
    rest_.resize(before + count);
  }
}

bool TextReader::read(Unit& unit) {
  if (ended_) return false;
  fill();
  const std::size_t size = ended_ ? rest_.size() : cut(rest_);
  unit.pieces.push_back({.file = file_,
                         .offset = offset_,
                         .begin = unit.text.size(),
                         .size = size,
                         .begins = offset_ == 0,
                         .ends = ended_});
  unit.text.append(rest_, 0, size);
  rest_.erase(0, size);
  offset_ += size;
  return true;
}

}  // namespace kha
