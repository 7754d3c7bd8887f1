// The tensors of a model on disk as one table, whether in one safetensors file or in many.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kha/core/safetensors.h"

namespace kha {

class ModelFiles {
 public:
  // A folder with model.safetensors or model.safetensors.index.json and its shards; or one of these
  // files. All headers are read and the index is compared with them, in both directions, before
  // anything is returned. Errors: neither or both present, an absent shard, a tensor that the index
  // and the shards do not agree on (the differences are listed), and those of SafetensorsFile.
  static ModelFiles open(const std::filesystem::path& folder_or_file);

  // In the order of the files and of their data.
  const std::vector<std::string>& names() const { return names_; }
  const TensorInfo* find(std::string_view name) const;  // nullptr when absent
  const TensorInfo& at(std::string_view name) const;    // fails with the nearest name
  std::span<const std::byte> bytes(std::string_view name) const;
  void let_go(std::string_view name) const;  // see SafetensorsFile

  // Element values, row-major. Errors: absent, or neither F64, F32, F16 nor BF16.
  std::vector<double> as_double(std::string_view name) const;
  std::vector<float> as_float(std::string_view name) const;

  const std::filesystem::path& file_of(std::string_view name) const;
  std::span<const SafetensorsFile> files() const { return files_; }
  std::uint64_t data_bytes() const;  // of all tensors

 private:
  struct Place {
    std::size_t file = 0;  // index in files_
    const TensorInfo* info = nullptr;
  };

  explicit ModelFiles(std::vector<SafetensorsFile> files, std::filesystem::path path);
  Place place(std::string_view name) const;  // fails with the nearest name
  std::span<const std::byte> convertible_bytes(const Place& place) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, Place> places_;  // where there are several files
};

}  // namespace kha
