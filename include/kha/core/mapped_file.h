// A file as a span of bytes, mapped read-only: pages are read when they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kha {

class MappedFile {
 public:
  // An empty file gives an empty span. Errors: missing (with the nearest name in its folder), a
  // folder or device, no permission. The file must not be shortened while it is mapped.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // The whole pages within `part`, a part of bytes(), leave the resident memory until they are
  // touched again.
  void let_go(std::span<const std::byte> part) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace kha
