#include "kha/core/model_folder.h"

#include "kha/core/checkpoint_store.h"
#include "kha/core/error.h"

namespace kha {
namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& path) {
  const bool gguf = path.extension() == ".gguf";
  fail({.what = "a file stands where a model's folder is needed",
        .where = path.string(),
        .expected = "a folder with config.json and model.safetensors",
        .found = gguf ? "a GGUF file (llama.cpp)" : "a file",
        .cause = gguf ? "GGUF is what `kha export --to gguf` writes, and kha does not read it" : "",
        .next = gguf ? "give the folder of the safetensors model that it was made from"
                     : "give its folder: " + path.parent_path().string()});
}

}  // namespace

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
  if (exists && !std::filesystem::is_directory(folder)) refuse_file(folder);
  fail({.what = "there is no model here",
        .where = folder.string(),
        .expected =
            "a folder with config.json and model.safetensors, or a run folder with checkpoints",
        .found = exists ? "neither" : "no such folder",
        .next = "check the path; a run's folder is RUN, a step's is RUN/checkpoints/latest"});
}

}  // namespace kha
