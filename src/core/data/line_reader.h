// A file of lines, each a document of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/data/byte_stream.h"
#include "core/data/file_reader.h"

namespace kha {

class LineReader : public FileReader {
 public:
  LineReader(std::unique_ptr<ByteStream> stream, std::uint32_t file);

  bool read(Unit& unit) override;
  std::uint64_t file_bytes() const override { return stream_->file_bytes(); }
  Checksum128 file_checksum() const override { return stream_->file_checksum(); }

 private:
  void add(std::string_view part);
  void end_line(Unit& unit);

  std::unique_ptr<ByteStream> stream_;
  std::uint32_t file_;
  std::string buffer_;
  std::string line_;      // so far, empty when it is too long
  std::size_t size_ = 0;  // of the line so far
  std::uint64_t lines_ = 0;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace kha
