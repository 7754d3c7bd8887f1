// The bytes of a file from front to back, unpacked on the way where the file is compressed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "kha/core/checksum.h"
#include "kha/core/text_source.h"

namespace kha {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills `out` from its front; fewer bytes than its size only at the end, 0 behind it. Throws
  // Error when the file cannot be read, or is damaged or cut.
  virtual std::size_t read(std::span<char> out) = 0;

  virtual std::uint64_t file_bytes() const = 0;   // of the file itself, taken so far
  virtual Checksum128 file_checksum() const = 0;  // of them
};

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& file, Compression compression);

}  // namespace kha
