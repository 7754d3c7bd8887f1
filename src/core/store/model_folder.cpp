#include "kha/core/model_folder.h"

#include "kha/core/checkpoint_store.h"
#include "kha/core/error.h"

namespace kha {

std::filesystem::path resolve_model_folder(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "config.json")) return folder;
  if (std::filesystem::is_directory(folder / "checkpoints")) {
    const auto latest = CheckpointStore(folder / "checkpoints").latest();
    if (latest.good) return latest.good->folder;
    fail({.what = "this run has no complete checkpoint",
          .where = folder.string(),
          .found = latest.passed_over.empty() ? "none" : latest.passed_over[0].reason,
          .next = "continue the run: kha train " + (folder / "config.toml").string()});
  }
  const bool exists = std::filesystem::exists(folder);
  fail({.what = "there is no model here",
        .where = folder.string(),
        .expected =
            "a folder with config.json and model.safetensors, or a run folder with checkpoints",
        .found = exists ? "neither" : "no such folder"});
}

}  // namespace kha
