#include "core/store/replace_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <system_error>

#include "core/store/checkpoint_names.h"
#include "core/store/file_errors.h"
#include "kha/core/atomic_file.h"
#include "kha/core/fail_point.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    fail_folder("cannot rename " + from.string(), to, errno);
  }
}

void remove_tree(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail_folder("cannot remove the folder", folder, error.value());
}

// False where the file system does not know the exchange.
bool exchange(const fs::path& one, const fs::path& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0)
    return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  fail_folder("cannot exchange " + one.string() + " with the older checkpoint", other, errno);
}

}  // namespace

void remove_whole(const fs::path& root, const fs::path& folder, std::int64_t step) {
  const fs::path hidden = root / hidden_name(step, "removed");
  remove_tree(hidden);  // left by an earlier process with this number
  rename_folder(folder, hidden);
  sync_folder(root);
  remove_tree(hidden);
}

void settle_replacement(const fs::path& root, std::int64_t step) {
  const fs::path replacing = root / replacing_name(step);
  const fs::path final_name = root / checkpoint_name(step);
  std::error_code error;
  if (!fs::exists(replacing, error)) return;
  if (fs::exists(final_name, error)) remove_whole(root, final_name, step);
  maybe_fail("during-replace");
  rename_folder(replacing, final_name);
  sync_folder(root);
}

void put_in_place(const fs::path& root, const fs::path& finished, std::int64_t step,
                  bool may_exchange) {
  settle_replacement(root, step);
  const fs::path final_name = root / checkpoint_name(step);
  std::error_code error;
  if (!fs::exists(final_name, error)) {
    rename_folder(finished, final_name);
  } else if (may_exchange && exchange(finished, final_name)) {
    sync_folder(root);
    remove_tree(finished);  // now the older checkpoint
  } else {
    rename_folder(finished, root / replacing_name(step));
    sync_folder(root);
    settle_replacement(root, step);
  }
  sync_folder(root);
}

}  // namespace kha
