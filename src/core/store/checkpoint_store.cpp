#include "kha/core/checkpoint_store.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "core/store/checkpoint_names.h"
#include "core/store/file_errors.h"
#include "core/store/manifest.h"
#include "core/store/replace_folder.h"
#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "kha/core/fail_point.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// Partial folders this process is writing. A number alone cannot tell them from what an earlier
// process with the same one left behind, as happens in containers.
class LiveFolders {
 public:
  bool add(const fs::path& folder) {
    const std::scoped_lock lock(mutex_);
    return folders_.insert(folder).second;
  }
  void drop(const fs::path& folder) {
    const std::scoped_lock lock(mutex_);
    folders_.erase(folder);
  }
  bool has(const fs::path& folder) {
    const std::scoped_lock lock(mutex_);
    return folders_.contains(folder);
  }

 private:
  std::mutex mutex_;
  std::set<fs::path> folders_;
};

LiveFolders& live_folders() {
  static LiveFolders folders;
  return folders;
}

bool is_left_over(const HiddenFolder& hidden) {
  if (hidden.process == ::getpid()) return !live_folders().has(hidden.folder);
  return hidden.process > 0 && ::kill(hidden.process, 0) != 0 && errno == ESRCH;
}

void point_latest_to(const fs::path& root, const std::string& name) {
  const fs::path temporary = root / (".latest." + std::to_string(::getpid()));
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_symlink(name, temporary, error);
  if (!error) fs::rename(temporary, root / "latest", error);
  if (error) fail_folder("cannot point `latest` to " + name, root, error.value());
  sync_folder(root);
}

// Faults that show without reading the content.
std::optional<std::string> quick_fault(const NamedFolder& named) {
  const ManifestOrFault read = read_manifest(named.folder);
  if (!read.manifest) return read.fault;
  if (read.manifest->step != named.step) {
    return "its manifest is of step " + std::to_string(read.manifest->step);
  }
  return compare_with_manifest(named.folder, *read.manifest, false);
}

std::optional<std::string> full_fault(const NamedFolder& named) {
  if (auto fault = quick_fault(named)) return fault;
  return find_fault(named.folder);
}

std::string cut_off_reason(const HiddenFolder& hidden) {
  return is_left_over(hidden)
             ? "incomplete: its save was cut off"
             : "incomplete: process " + std::to_string(hidden.process) + " is still writing it";
}

// The path itself, or with the first number behind it that no file has.
fs::path free_name(const fs::path& wanted) {
  fs::path name = wanted;
  for (int number = 2; fs::exists(name); ++number) {
    name = wanted.string() + "." + std::to_string(number);
  }
  return name;
}

}  // namespace

std::optional<std::string> find_fault(const fs::path& folder) {
  const ManifestOrFault read = read_manifest(folder);
  if (!read.manifest) return read.fault;
  return compare_with_manifest(folder, *read.manifest, true);
}

void verify(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail({.what = "there is no such checkpoint folder", .where = folder.string()});
  }
  if (const auto fault = find_fault(folder)) {
    fail({.what = "the checkpoint cannot be used",
          .where = folder.string(),
          .found = *fault,
          .cause = "its save or copy was cut off, or the disk is failing",
          .next = "use another checkpoint of the run"});
  }
}

PendingCheckpoint::PendingCheckpoint(fs::path root, std::int64_t step)
    : root_(std::move(root)), step_(step), partial_(root_ / hidden_name(step, "partial")) {
  if (!live_folders().add(partial_)) {
    fail({.what = "this step is being saved already",
          .where = std::exchange(partial_, {}).string()});
  }
  std::error_code error;
  fs::remove_all(partial_, error);  // left by an earlier process with this number
  fs::create_directories(partial_, error);
  if (error) {
    live_folders().drop(partial_);
    fail_folder("cannot make the folder for a checkpoint", partial_, error.value());
  }
}

PendingCheckpoint::PendingCheckpoint(PendingCheckpoint&& other) noexcept
    : root_(std::move(other.root_)),
      step_(other.step_),
      partial_(std::exchange(other.partial_, {})) {}

PendingCheckpoint::~PendingCheckpoint() {
  // The name carries the process: a forked child must not remove its parent's work.
  if (partial_.empty() || partial_.filename() != hidden_name(step_, "partial")) return;
  std::error_code error;
  fs::remove_all(partial_, error);
  live_folders().drop(partial_);
}

Checkpoint PendingCheckpoint::commit() {
  seal_folder(partial_, step_);
  put_in_place(root_, partial_, step_);
  live_folders().drop(std::exchange(partial_, {}));
  maybe_fail("before-latest");
  point_latest_to(root_, checkpoint_name(step_));
  return {.step = step_, .folder = root_ / checkpoint_name(step_)};
}

CheckpointStore::CheckpointStore(fs::path folder) : folder_(std::move(folder)) {}

PendingCheckpoint CheckpointStore::begin(std::int64_t step) {
  if (step < 0) {
    fail({.what = "a checkpoint needs a step from 0",
          .where = folder_.string(),
          .found = std::to_string(step)});
  }
  return PendingCheckpoint(folder_, step);
}

std::vector<Checkpoint> CheckpointStore::list() const {
  std::vector<Checkpoint> complete;
  for (const NamedFolder& named : checkpoint_folders(folder_)) {
    if (quick_fault(named)) continue;
    if (!complete.empty() && complete.back().step == named.step) complete.pop_back();
    complete.push_back({.step = named.step, .folder = named.folder});
  }
  return complete;
}

LatestCheckpoint CheckpointStore::latest() const {
  LatestCheckpoint result;
  std::vector<NamedFolder> named = checkpoint_folders(folder_);
  std::vector<std::pair<std::int64_t, PassedOver>> passed_over;
  while (!named.empty() && !result.good) {
    const NamedFolder& newest = named.back();
    if (const auto fault = full_fault(newest)) {
      passed_over.push_back({newest.step, {.folder = newest.folder, .reason = *fault}});
    } else {
      result.good = Checkpoint{.step = newest.step, .folder = newest.folder};
    }
    named.pop_back();
  }
  for (const HiddenFolder& hidden : hidden_folders(folder_)) {
    const bool is_save = hidden.folder.extension() == ".partial";
    if (is_save && (!result.good || hidden.step > result.good->step)) {
      passed_over.push_back(
          {hidden.step, {.folder = hidden.folder, .reason = cut_off_reason(hidden)}});
    }
  }
  std::stable_sort(passed_over.begin(), passed_over.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [step, passed] : passed_over) result.passed_over.push_back(std::move(passed));
  return result;
}

std::vector<fs::path> CheckpointStore::remove_partials() {
  for (const NamedFolder& named : checkpoint_folders(folder_)) {
    if (named.replacing && !quick_fault(named)) settle_replacement(folder_, named.step);
  }
  std::vector<fs::path> removed;
  for (const HiddenFolder& hidden : hidden_folders(folder_)) {
    if (!is_left_over(hidden)) continue;
    std::error_code error;
    fs::remove_all(hidden.folder, error);
    if (error) fail_folder("cannot remove an unfinished checkpoint", hidden.folder, error.value());
    removed.push_back(hidden.folder);
  }
  return removed;
}

std::vector<fs::path> CheckpointStore::go_on_from(std::int64_t step) {
  std::vector<fs::path> aside;
  bool has_step = false;
  for (const NamedFolder& named : checkpoint_folders(folder_)) {
    has_step |= named.step == step;
    if (named.step <= step) continue;
    const fs::path name = free_name(folder_ / ("aside-" + named.folder.filename().string()));
    std::error_code error;
    fs::rename(named.folder, name, error);
    if (error) fail_folder("cannot set a later checkpoint aside", named.folder, error.value());
    aside.push_back(name);
  }
  if (has_step) point_latest_to(folder_, checkpoint_name(step));
  return aside;
}

std::vector<Checkpoint> CheckpointStore::retain(std::int64_t keep_last, std::int64_t keep_every) {
  const std::vector<Checkpoint> complete = list();
  const auto kept_from =
      static_cast<std::int64_t>(complete.size()) - std::max<std::int64_t>(keep_last, 1);
  std::vector<Checkpoint> surplus;
  for (std::int64_t i = 0; i < kept_from; ++i) {
    const Checkpoint& one = complete[static_cast<std::size_t>(i)];
    if (keep_every <= 0 || one.step % keep_every != 0) surplus.push_back(one);
  }
  if (surplus.empty()) return {};
  const std::optional<Checkpoint> newest_good = latest().good;
  std::erase_if(surplus, [&](const Checkpoint& one) {
    return newest_good && one.folder == newest_good->folder;
  });
  for (const Checkpoint& one : surplus) remove_whole(folder_, one.folder, one.step);
  return surplus;
}

}  // namespace kha
