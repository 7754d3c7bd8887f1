#include "core/data/text_reader.h"

#include <algorithm>
#include <span>

#include "core/data/long_text.h"

namespace kha {
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
  const std::size_t size = ended_ ? rest_.size() : cut_long_text(rest_);
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
