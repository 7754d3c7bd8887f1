// errno as sentences: what failed on which file, what is left as it was, what to do next.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kha {

[[noreturn]] void fail_reading(const std::filesystem::path& path, int error);

struct WriteFailure {
  std::filesystem::path path;      // the name the user knows, not the temporary one
  int error = 0;                   // errno
  std::uint64_t wanted_bytes = 0;  // of the whole file; 0 when not known
  std::uint64_t written_bytes = 0;
};

// Writing, syncing or renaming `path` failed. Everything is written beside and renamed, so what
// stood under the name before is still there, and the message says so.
[[noreturn]] void fail_writing(const WriteFailure& failure);

// Creating, listing, renaming or removing a folder failed; `what` is the sentence.
[[noreturn]] void fail_folder(const std::string& what, const std::filesystem::path& path,
                              int error);

}  // namespace kha
