#include "core/data/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "core/store/file_errors.h"

namespace kha {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : file_(::open((folder / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (!file_.is_open()) fail_folder("cannot write to the folder for prepared text", folder, errno);
  while (::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
}

}  // namespace kha
