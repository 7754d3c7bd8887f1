// The folder of a run: made, locked against a second process, its configuration written.
#pragma once

#include <filesystem>

#include "kha/core/run_config.h"

namespace kha {

class RunFolder {
 public:
  // Makes the folder and takes its lock. Errors: it cannot be made, another process trains in it.
  explicit RunFolder(const std::filesystem::path& folder);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  void write_config(const RunConfig& config) const;

 private:
  std::filesystem::path folder_;
  int lock_ = -1;
};

}  // namespace kha
