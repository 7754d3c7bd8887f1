// XXH3 checksums against accidents (cut files, flipped bits), not against an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace kha {

struct Checksum128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Checksum128&) const = default;
};

std::uint64_t xxh3_64(std::span<const std::byte> bytes);
Checksum128 xxh3_128(std::span<const std::byte> bytes);

// Lower-case hexadecimal, most significant digit first: 16 and 32 characters.
std::string to_hex(std::uint64_t checksum);
std::string to_hex(const Checksum128& checksum);

// The XXH3-64 of bytes that come in parts: equal to xxh3_64 of all of them, wherever they are cut.
class ChecksumStream {
 public:
  ChecksumStream();
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;  // of what came so far; more may follow

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// As ChecksumStream, for XXH3-128.
class ChecksumStream128 {
 public:
  ChecksumStream128();
  void update(std::span<const std::byte> bytes);
  Checksum128 digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// What is known of a file's content.
struct FileReport {
  std::uint64_t size = 0;      // bytes
  std::uint64_t checksum = 0;  // XXH3-64
  bool operator==(const FileReport&) const = default;
};

// Reads the file once, in parts. Errors: as MappedFile::open, and a read error of the device.
FileReport report_file(const std::filesystem::path& path);

}  // namespace kha
