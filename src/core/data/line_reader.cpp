#include "core/data/line_reader.h"

#include <span>

namespace kha {

LineReader::LineReader(std::unique_ptr<ByteStream> stream, std::uint32_t file)
    : stream_(std::move(stream)), file_(file), buffer_(std::size_t{1} << 18, '\0') {}

bool LineReader::read(Unit& unit) {
  if (ended_) return false;
  const std::size_t count = stream_->read(buffer_);
  ended_ = count < buffer_.size();
  std::string_view rest = std::string_view(buffer_).substr(0, count);
  for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos;) {
    add(rest.substr(0, end));
    end_line(unit);
    rest.remove_prefix(end + 1);
  }
  add(rest);
  if (ended_ && size_ > 0) end_line(unit);
  return true;
}

void LineReader::add(std::string_view part) {
  size_ += part.size();
  size_ <= most_line ? void(line_ += part) : line_.clear();
}

void LineReader::end_line(Unit& unit) {
  unit.pieces.push_back({.file = file_,
                         .line = ++lines_,
                         .offset = offset_,
                         .begin = unit.text.size(),
                         .size = line_.size(),
                         .too_long = size_ > most_line});
  unit.text += line_;
  offset_ += size_ + 1;
  line_.clear();
  size_ = 0;
}

}  // namespace kha
