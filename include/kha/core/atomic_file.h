// Files that appear whole or not at all.
//
// The bytes go to a hidden temporary name beside the target, are synced to the disk, and one rename
// puts them under the final name. Whatever fails before that, the old file stays as it was and the
// temporary one is removed; a kill leaves at most the temporary one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "kha/core/checksum.h"

namespace kha {

// Errors (kha::Error): disk full, quota, file size limit, no permission, read-only file system,
// missing folder, the target is a folder. Each says how much was wanted and what stays intact.
FileReport write_file_atomically(const std::filesystem::path& path,
                                 std::span<const std::byte> bytes);
FileReport write_file_atomically(const std::filesystem::path& path, std::string_view text);

// The same for content that comes in parts: buffered, every write checked, checksum on the way.
// A symbolic link is followed, so the file it names is the one replaced. A device or pipe
// (/dev/stdout) cannot be replaced and is written directly.
class FileSink {
 public:
  // `expected_bytes` only serves the message of a full disk; 0 when not known.
  explicit FileSink(const std::filesystem::path& path, std::uint64_t expected_bytes = 0);
  FileSink(FileSink&&) noexcept;
  FileSink& operator=(FileSink&&) noexcept;
  ~FileSink();  // without finish(): the temporary file is removed, the old one untouched

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  std::uint64_t size() const;  // bytes taken so far

  // Flush, sync, rename, sync the folder. Nothing may be written afterwards.
  FileReport finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Makes renames in `folder` survive a power cut. Errors: the folder cannot be opened or synced.
void sync_folder(const std::filesystem::path& folder);

}  // namespace kha
