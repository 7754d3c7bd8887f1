// Checkpoints as whole folders: each appears under its final name complete and checked, or not at
// all. A kill at any moment leaves the newest complete one loadable.
//
//   CHECKPOINTS/step-00000500/            one checkpoint, with MANIFEST.json: sizes and checksums
//   CHECKPOINTS/latest -> step-00000500   for people; the store itself looks at the folders
//   CHECKPOINTS/.step-00000600.4711.partial   being written by process 4711, or left by it
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kha {

struct Checkpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
};

// A checkpoint that cannot be used, and why, in words: "incomplete: ...", "trainer/state.bin: ...".
struct PassedOver {
  std::filesystem::path folder;
  std::string reason;
};

struct LatestCheckpoint {
  std::optional<Checkpoint> good;
  std::vector<PassedOver> passed_over;  // newer than `good`, newest first; to be shown to the user
};

// Compares every file of the manifest with what is there: sizes, then checksums (each file is read
// once). Returns the first fault in words, or nothing when the checkpoint is good. Files that the
// manifest does not name are ignored.
std::optional<std::string> find_fault(const std::filesystem::path& folder);

// As find_fault, as an Error: for a checkpoint that the user asked for by name.
void verify(const std::filesystem::path& folder);

// A checkpoint being written. The caller puts files into folder() (sub-folders as it likes), then
// calls commit(). Without commit the folder is removed.
class PendingCheckpoint {
 public:
  PendingCheckpoint(PendingCheckpoint&& other) noexcept;
  PendingCheckpoint& operator=(PendingCheckpoint&&) = delete;
  ~PendingCheckpoint();

  const std::filesystem::path& folder() const { return partial_; }

  // Writes MANIFEST.json, syncs every file and folder, renames to the final name, and points
  // `latest` there. An older checkpoint of the same step is replaced without a moment in which
  // neither can be loaded. Errors: no file inside, something that is no file or folder, and those
  // of the disk; before the rename they leave all older checkpoints as they were.
  Checkpoint commit();

 private:
  friend class CheckpointStore;
  PendingCheckpoint(std::filesystem::path root, std::int64_t step);

  std::filesystem::path root_;
  std::int64_t step_;
  std::filesystem::path partial_;  // empty: committed or moved from
};

class CheckpointStore {
 public:
  // `folder` need not exist before the first begin().
  explicit CheckpointStore(std::filesystem::path folder);

  // Errors: a negative step, a folder that cannot be made, a save of the same step in progress in
  // this process.
  PendingCheckpoint begin(std::int64_t step);

  // Complete checkpoints by rising step. Complete: a readable manifest, all files there with their
  // sizes; checksums are not looked at.
  std::vector<Checkpoint> list() const;

  // The newest checkpoint without a fault, checksums included, and what was passed over on the way,
  // saves that were cut off among it.
  LatestCheckpoint latest() const;

  // Removes what interrupted saves and removals of dead processes left; returns what was removed.
  std::vector<std::filesystem::path> remove_partials();

  // Removes complete checkpoints other than the `keep_last` newest (at least 1) and, where
  // `keep_every` is not 0, those whose step is a multiple of it. The newest one without a fault is
  // always kept. Returns what was removed. Each is renamed to a hidden name first, so that a kill
  // leaves no half of a checkpoint under its name.
  std::vector<Checkpoint> retain(std::int64_t keep_last, std::int64_t keep_every);

  // For a run that goes on from `step`: checkpoints of later steps, good or not, are renamed to
  // aside-step-N, where nothing takes them for the run's own, and `latest` points to `step` when it
  // is there. Returns the new names. Nothing is removed.
  std::vector<std::filesystem::path> go_on_from(std::int64_t step);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace kha
