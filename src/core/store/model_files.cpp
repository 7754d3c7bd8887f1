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
    if (name.ends_with(".gguf")) {
      cause =
          name + " is there: GGUF is what `kha export --to gguf` writes, and kha does not read it";
    } else if (name.starts_with("pytorch_model") && name.ends_with(".bin")) {
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
          .cause = likely_cause(folder),
          .next = "give the folder of the safetensors model"});
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
  std::size_t count = 0;
  for (const SafetensorsFile& file : files_) count += file.tensors().size();
  names_.reserve(count);
  for (const SafetensorsFile& file : files_) {
    for (const TensorInfo& tensor : file.tensors()) names_.push_back(tensor.name);
  }
  if (files_.size() == 1) return;  // which has a table of its own
  places_.reserve(count);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const TensorInfo& tensor : files_[i].tensors()) {
      places_.emplace(tensor.name, Place{i, &tensor});
    }
  }
}

const TensorInfo* ModelFiles::find(std::string_view name) const {
  if (files_.size() == 1) return files_.front().find(name);
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.info;
}

ModelFiles::Place ModelFiles::place(std::string_view name) const {
  if (files_.size() == 1) {
    if (const TensorInfo* info = files_.front().find(name)) return {0, info};
  } else if (const auto found = places_.find(name); found != places_.end()) {
    return found->second;
  }
  fail({.what = "the model has no tensor `" + shown(name) + "`" + did_you_mean(name, names_),
        .where = path_.string(),
        .found = std::to_string(names_.size()) + " other tensors"});
}

const TensorInfo& ModelFiles::at(std::string_view name) const { return *place(name).info; }

std::span<const std::byte> ModelFiles::bytes(std::string_view name) const {
  const Place found = place(name);
  return files_[found.file].bytes(*found.info);
}

void ModelFiles::let_go(std::string_view name) const {
  const Place found = place(name);
  files_[found.file].let_go(*found.info);
}

const fs::path& ModelFiles::file_of(std::string_view name) const {
  return files_[place(name).file].path();
}

std::span<const std::byte> ModelFiles::convertible_bytes(const Place& place) const {
  const TensorInfo& info = *place.info;
  const SafetensorsFile& file = files_[place.file];
  if (is_convertible(info.dtype)) return file.bytes(info);
  fail({.what = "the tensor is not of a floating type that kha computes with",
        .where = file.path().string() + ", tensor " + shown(info.name),
        .expected = "F64, F32, F16 or BF16",
        .found = std::string(safetensors_name(info.dtype)),
        .cause = "the model is quantised, or this tensor is no weight",
        .next = "use the model in its unquantised form"});
}

std::vector<double> ModelFiles::as_double(std::string_view name) const {
  const Place found = place(name);
  return to_doubles(found.info->dtype, convertible_bytes(found));
}

std::vector<float> ModelFiles::as_float(std::string_view name) const {
  const Place found = place(name);
  return to_floats(found.info->dtype, convertible_bytes(found));
}

std::uint64_t ModelFiles::data_bytes() const {
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : files_) total += file.data_bytes();
  return total;
}

}  // namespace kha
