// Scalars in the form that TensorBoard reads: records of protobuf `Event` messages in one file,
// events.out.tfevents.TIME.HOST.PID. Formats: TFRecord (length, masked CRC-32C of the length, data,
// masked CRC-32C of the data, all little-endian) and tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kha {

// CRC-32C (Castagnoli) of the bytes: 0xE3069283 for "123456789".
std::uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  // Makes `folder` and a new file in it, whose name sorts behind those that are there: readers take
  // files in that order. The file begins with a restart mark for `first_step`, at which TensorBoard
  // drops what earlier files hold for that step and later ones.
  // Errors (kha::Error): the folder or the file cannot be made.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  // One event with these (tag, value) pairs, on its way to the disk when this returns. A value is
  // stored as float32, as the format has it. Errors: the disk is full, or the file is gone.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(std::string_view event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace kha
