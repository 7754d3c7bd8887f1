#include "core/surgery/side_files.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "core/store/file_errors.h"
#include "kha/core/atomic_file.h"
#include "kha/core/mapped_file.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

template <size_t count>
bool has(const std::array<const char*, count>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_written_anew(const std::string& name) {
  return name == "config.json" || name == "model.safetensors.index.json" ||
         name.ends_with(".safetensors");
}

// Weights in other formats would still be the old ones, and a manifest vouches for the old files.
bool is_of_the_old_model(const fs::directory_entry& entry, const std::string& name) {
  static constexpr std::array weights{".bin",  ".pt", ".pth",     ".ckpt",
                                      ".gguf", ".h5", ".msgpack", ".onnx"};
  std::error_code error;
  return !entry.is_regular_file(error) || name == "MANIFEST.json" ||
         name.ends_with(".index.json") || has(weights, entry.path().extension().string());
}

}  // namespace

SideFiles copy_side_files(const fs::path& from, const fs::path& to, bool model_code) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(*entry);
  }
  if (error) fail_folder("cannot list the folder", from, error.value());
  SideFiles files;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || is_written_anew(name)) continue;
    if (is_of_the_old_model(entry, name) || (!model_code && name.ends_with(".py"))) {
      files.left_out.push_back(name);
    } else {
      write_file_atomically(to / name, MappedFile::open(entry.path()).bytes());
      files.copied.push_back(name);
    }
  }
  std::sort(files.copied.begin(), files.copied.end());
  std::sort(files.left_out.begin(), files.left_out.end());
  return files;
}

void write_settings(const fs::path& folder, const ModelConfig& config,
                    const std::string& config_text) {
  if (!fs::exists(folder / "generation_config.json")) {
    write_file_atomically(folder / "generation_config.json",
                          std::string_view(to_generation_config_json(config)));
  }
  write_file_atomically(folder / "config.json", std::string_view(config_text));
}

}  // namespace kha
