// One writer at a time for a folder of the cache, across processes.
#pragma once

#include <filesystem>

#include "core/store/file_descriptor.h"

namespace kha {

// Waits until no other process holds the lock; the system frees it when this object or the process
// ends. Where the file system knows no locks there is none: writing twice does no harm.
class FolderLock {
 public:
  // The lock's own file in the folder; removing it would let two processes hold the lock.
  static constexpr const char* name = ".lock";

  // `folder` must exist. Throws Error when nothing can be written in it.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor file_;
};

}  // namespace kha
