// A text file as one document.
#pragma once

#include <memory>
#include <string>

#include "core/data/byte_stream.h"
#include "core/data/file_reader.h"

namespace kha {

class TextReader : public FileReader {
 public:
  TextReader(std::unique_ptr<ByteStream> stream, std::uint32_t file);

  bool read(Unit& unit) override;
  std::uint64_t file_bytes() const override { return stream_->file_bytes(); }
  Checksum128 file_checksum() const override { return stream_->file_checksum(); }

 private:
  void fill();

  std::unique_ptr<ByteStream> stream_;
  std::uint32_t file_;
  std::string rest_;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace kha
