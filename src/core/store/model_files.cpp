#include "kha/core/model_files.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/store/shard_index.h"
#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

// What in a folder without a model file explains its absence.
std::string likely_cause(const fs::path& folder) {
  std::error_code error;
  std::string cause;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".incomplete") || name.ends_with(".part")) {
      return name + " is there: the download was not finished";
    }
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) {
      cause = name + " is there: the model is in PyTorch's pickle format, not in safetensors";
    } else if (name.ends_with(".safetensors") && cause.empty()) {
      cause = name + " is there, but no index; give that file itself if it is the whole model";
    }
  }
  return cause;
}

fs::path file_in_folder(const fs::path& folder) {
  std::error_code error;
  const bool single = fs::exists(folder / single_name, error);
  const bool index = fs::exists(folder / index_name, error);
  if (single && index) {
    fail({.what = "the folder has both a whole model and an index of shards",
          .where = folder.string(),
          .found = std::string(single_name) + " and " + index_name,
          .next = "give the one you mean as a file, or remove the other"});
  }
  if (!single && !index) {
    fail({.what = "the folder has no model weights",
          .where = folder.string(),
          .expected = std::string(single_name) + " or " + index_name,
          .cause = likely_cause(folder)});
  }
  return folder / (single ? single_name : index_name);
}

}  // namespace

ModelFiles ModelFiles::open(const fs::path& folder_or_file) {
  std::error_code error;
  const bool is_folder = fs::is_directory(folder_or_file, error);
  const fs::path file = is_folder ? file_in_folder(folder_or_file) : folder_or_file;
  std::vector<SafetensorsFile> files;
  if (file.extension() == ".json") {
    files = open_shards(read_shard_index(file));
  } else {
    files.push_back(SafetensorsFile::open(file));
  }
  return ModelFiles(std::move(files), folder_or_file);
}

ModelFiles::ModelFiles(std::vector<SafetensorsFile> files, fs::path path)
    : path_(std::move(path)), files_(std::move(files)) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const TensorInfo& tensor : files_[i].tensors()) {
      names_.push_back(tensor.name);
      file_of_.emplace(tensor.name, i);
    }
  }
}

const TensorInfo* ModelFiles::find(std::string_view name) const {
  const auto found = file_of_.find(std::string(name));
  return found == file_of_.end() ? nullptr : files_[found->second].find(name);
}

std::size_t ModelFiles::file_index(std::string_view name) const {
  const auto found = file_of_.find(std::string(name));
  if (found != file_of_.end()) return found->second;
  fail({.what = "the model has no tensor `" + shown(name) + "`" + did_you_mean(name, names_),
        .where = path_.string(),
        .found = std::to_string(names_.size()) + " other tensors"});
}

const TensorInfo& ModelFiles::at(std::string_view name) const {
  return files_[file_index(name)].at(name);
}

std::span<const std::byte> ModelFiles::bytes(std::string_view name) const {
  return files_[file_index(name)].bytes(name);
}

const fs::path& ModelFiles::file_of(std::string_view name) const {
  return files_[file_index(name)].path();
}

void ModelFiles::require_convertible(const TensorInfo& info, std::size_t file) const {
  if (is_convertible(info.dtype)) return;
  fail({.what = "the tensor is not of a floating type that kha computes with",
        .where = files_[file].path().string() + ", tensor " + shown(info.name),
        .expected = "F64, F32, F16 or BF16",
        .found = std::string(safetensors_name(info.dtype)),
        .cause = "the model is quantised, or this tensor is no weight",
        .next = "use the model in its unquantised form"});
}

std::vector<double> ModelFiles::as_double(std::string_view name) const {
  const TensorInfo& info = at(name);
  require_convertible(info, file_index(name));
  return to_doubles(info.dtype, bytes(name));
}

std::vector<float> ModelFiles::as_float(std::string_view name) const {
  const TensorInfo& info = at(name);
  require_convertible(info, file_index(name));
  return to_floats(info.dtype, bytes(name));
}

std::uint64_t ModelFiles::data_bytes() const {
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : files_) total += file.data_bytes();
  return total;
}

}  // namespace kha
