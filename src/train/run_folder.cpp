#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"

namespace kha {

RunFolder::RunFolder(const std::filesystem::path& folder) : folder_(folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto lock_path = folder / ".lock";
  lock_ = error ? -1 : open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) {
    fail({.what = "cannot make the run's folder",
          .where = folder.string(),
          .found = error ? error.message() : std::strerror(errno),
          .cause = "a read-only or full disk, or no permission",
          .next = "choose another place: --set run.folder=DIR"});
  }
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    fail({.what = "another process is training in this run's folder",
          .where = folder.string(),
          .next = "wait for it, stop it, or choose another name: --set run.name=NAME"});
  }
}

RunFolder::~RunFolder() { close(lock_); }

void RunFolder::write_config(const RunConfig& config) const {
  write_file_atomically(folder_ / "config.toml", to_toml(config));
}

}  // namespace kha
