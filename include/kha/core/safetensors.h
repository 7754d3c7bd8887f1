// The safetensors format: 8 bytes of little-endian header length, a JSON header, then the data of
// all tensors without gap or overlap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kha/core/atomic_file.h"
#include "kha/core/dtype.h"
#include "kha/core/mapped_file.h"

namespace kha {

// The limit of the reference implementation; a larger header is refused.
inline constexpr std::uint64_t largest_safetensors_header = 100'000'000;

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // empty: one element
  std::uint64_t begin = 0;          // byte offsets in the data section
  std::uint64_t end = 0;

  std::uint64_t byte_size() const { return end - begin; }
  std::int64_t element_count() const {
    return static_cast<std::int64_t>(byte_size() / size_of(dtype));
  }
};

// A file whose every offset has been checked against the file's size, the other tensors and the
// shapes before any pointer is formed.
class SafetensorsFile {
 public:
  // Maps the file and reads its header; data pages are read when used. Errors: another format
  // (zip, pickle, GGUF, git-lfs pointer, web page, ...: named), cut file, header over its limit or
  // not JSON, repeated names, overlap, gap, bytes that belong to no tensor, wrong offsets or
  // shapes.
  static SafetensorsFile open(const std::filesystem::path& path);

  std::span<const TensorInfo> tensors() const { return tensors_; }  // in the order of their data
  const TensorInfo* find(std::string_view name) const;              // nullptr when absent
  const TensorInfo& at(std::string_view name) const;                // fails with the nearest name
  std::span<const std::byte> bytes(const TensorInfo& info) const;   // not necessarily aligned
  std::span<const std::byte> bytes(std::string_view name) const { return bytes(at(name)); }

  // For whoever goes through a file larger than the memory: the bytes of a tensor no longer count
  // as resident. They stay valid, and are read again when touched.
  void let_go(const TensorInfo& info) const { file_.let_go(bytes(info)); }

  // Empty when the file has no `__metadata__`, or a null or empty one.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t data_bytes() const { return data_.size(); }

 private:
  explicit SafetensorsFile(MappedFile file);

  MappedFile file_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;  // of names in tensors_
  std::map<std::string, std::string> metadata_;
  std::span<const std::byte> data_;
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;

  // Errors: a negative dimension, a size over 2^63 bytes.
  std::uint64_t byte_size() const;
};

// Writes one file, tensor after tensor, without holding more than one part in memory. The file
// appears under its name only in finish() (see FileSink). The data stands in the order of `specs`;
// wider element types first keeps every tensor aligned. `format: pt` is always in the metadata.
class SafetensorsWriter {
 public:
  // Errors: a repeated or reserved name, a shape too large, a header over the limit, and those of
  // FileSink.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> specs,
                    std::map<std::string, std::string> metadata = {});

  // The whole of the next tensor. Errors: not the next name, a byte count that is not its size.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // A part of the next tensor; the following tensor is next when all its bytes are there.
  void write_part(std::string_view name, std::span<const std::byte> bytes);

  // Errors: tensors that were not written (named). Returns size and checksum of the file.
  FileReport finish();

 private:
  void skip_empty_tensors();
  [[noreturn]] void fail_count(const TensorSpec& spec, std::uint64_t got) const;

  std::filesystem::path path_;
  std::vector<TensorSpec> specs_;
  std::unique_ptr<FileSink> sink_;
  std::size_t next_ = 0;          // index in specs_
  std::uint64_t part_bytes_ = 0;  // of specs_[next_] written so far
};

}  // namespace kha
