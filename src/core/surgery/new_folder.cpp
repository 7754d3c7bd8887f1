#include "core/surgery/new_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/store/file_errors.h"
#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "kha/core/fail_point.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// "a/b/" names the same folder as "a/b".
fs::path without_slash(const fs::path& name) {
  const fs::path full = fs::absolute(name).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

[[noreturn]] void fail_taken(const fs::path& name) {
  fail({.what = "the output exists already",
        .where = name.string(),
        .next = "give another name, or remove this one"});
}

}  // namespace

void require_free(const fs::path& name) {
  std::error_code error;
  if (fs::symlink_status(name, error).type() != fs::file_type::not_found) fail_taken(name);
}

NewFolder::NewFolder(const fs::path& name) : name_(without_slash(name)) {
  require_free(name_);
  std::error_code error;
  fs::create_directories(name_.parent_path(), error);
  if (error) fail_folder("cannot create the folder", name_.parent_path(), error.value());
  const fs::path hidden = name_.parent_path() / ("." + name_.filename().string() + "." +
                                                 std::to_string(::getpid()) + ".partial");
  fs::remove_all(hidden, error);  // left by an earlier process with this number
  if (!fs::create_directory(hidden, error))
    fail_folder("cannot create the folder", hidden, error.value());
  hidden_ = hidden;
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!hidden_.empty()) fs::remove_all(hidden_, ignored);
}

void NewFolder::commit() {
  sync_folder(hidden_);
  maybe_fail("new-folder-written");
  put_under_name(hidden_);
  hidden_.clear();
}

void NewFolder::commit_file(const std::string& file) { put_under_name(hidden_ / file); }

void NewFolder::put_under_name(const fs::path& written) const {
  // The flag refuses what another process has put there meanwhile.
  const auto rename = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, name_.c_str(), flags) == 0;
  };
  if (!rename(RENAME_NOREPLACE)) {
    if (errno == EEXIST) fail_taken(name_);
    const bool unknown_flag = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
    if (unknown_flag) require_free(name_);  // without the flag a file would be replaced
    if (!unknown_flag || !rename(0)) fail_folder("cannot rename " + written.string(), name_, errno);
  }
  sync_folder(name_.parent_path());
}

}  // namespace kha
