#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/safetensors.h"

namespace kha {
namespace {

void refuse_names(const std::vector<TensorSpec>& specs, const std::filesystem::path& path) {
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& spec : specs) {
    if (spec.name == "__metadata__") {
      fail({.what = "a tensor may not be called __metadata__", .where = path.string()});
    }
    if (!names.insert(spec.name).second) {
      fail({.what = "two tensors to be written have the same name",
            .where = path.string() + ", tensor " + shown(spec.name),
            .expected = "each name once"});
    }
  }
}

// The offsets of all tensors, and their total.
std::uint64_t lay_out(nlohmann::json& header, const std::vector<TensorSpec>& specs,
                      const std::filesystem::path& path) {
  std::uint64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    const std::uint64_t begin = offset;
    if (__builtin_add_overflow(offset, spec.byte_size(), &offset)) {
      fail({.what = "the tensors together are too large for one file", .where = path.string()});
    }
    header[spec.name] = {{"dtype", safetensors_name(spec.dtype)},
                         {"shape", spec.shape},
                         {"data_offsets", {begin, offset}}};
  }
  return offset;
}

// With spaces at the end, so that the data starts at a multiple of 8.
std::string padded_text(const nlohmann::json& header, const std::filesystem::path& path) {
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error& error) {
    fail({.what = "a tensor name or metadata value is not UTF-8",
          .where = path.string(),
          .found = shown(error.what())});
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > largest_safetensors_header) {
    fail({.what = "the header of the file would be over the limit",
          .where = path.string(),
          .expected = "at most " + std::to_string(largest_safetensors_header) + " bytes",
          .found = std::to_string(text.size()) + " bytes",
          .next = "write several files with an index"});
  }
  return text;
}

}  // namespace

std::uint64_t TensorSpec::byte_size() const {
  std::int64_t size = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(size, dimension, &size)) {
      fail({.what = dimension < 0 ? "a dimension is negative" : "a tensor is too large",
            .where = "tensor " + shown(name),
            .found = std::string(safetensors_name(dtype)) + " " + shape_text(shape)});
    }
  }
  return static_cast<std::uint64_t>(size);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<TensorSpec> specs,
                                     std::map<std::string, std::string> metadata)
    : path_(path), specs_(std::move(specs)) {
  refuse_names(specs_, path_);
  metadata["format"] = "pt";  // transformers refuses files without it
  nlohmann::json header;
  header["__metadata__"] = std::move(metadata);
  const std::uint64_t data_bytes = lay_out(header, specs_, path_);
  const std::string text = padded_text(header, path_);
  sink_ = std::make_unique<FileSink>(path_, 8 + text.size() + data_bytes);
  const std::uint64_t length = text.size();
  sink_->write(std::as_bytes(std::span(&length, 1)));
  sink_->write(text);
}

// A tensor without elements has nothing to wait for, unless it is written by name.
void SafetensorsWriter::skip_empty_tensors() {
  while (next_ < specs_.size() && specs_[next_].byte_size() == 0) ++next_;
}

void SafetensorsWriter::fail_count(const TensorSpec& spec, std::uint64_t got) const {
  fail({.what = "wrong number of bytes for a tensor",
        .where = path_.string() + ", tensor " + shown(spec.name),
        .expected = std::to_string(spec.byte_size()) + " bytes for " +
                    std::string(safetensors_name(spec.dtype)) + " " + shape_text(spec.shape),
        .found = std::to_string(got) + " bytes"});
}

void SafetensorsWriter::write_part(std::string_view name, std::span<const std::byte> bytes) {
  if (next_ < specs_.size() && specs_[next_].name != name) skip_empty_tensors();
  if (next_ >= specs_.size() || specs_[next_].name != name) {
    fail({.what = "a tensor is written out of order",
          .where = path_.string(),
          .expected = next_ < specs_.size() ? shown(specs_[next_].name) : "no further tensor",
          .found = shown(name)});
  }
  const TensorSpec& spec = specs_[next_];
  const std::uint64_t size = spec.byte_size();
  if (bytes.size() > size - part_bytes_) fail_count(spec, part_bytes_ + bytes.size());
  sink_->write(bytes);
  part_bytes_ += bytes.size();
  if (part_bytes_ == size) {
    ++next_;
    part_bytes_ = 0;
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (next_ < specs_.size() && specs_[next_].name == name) {
    const TensorSpec& spec = specs_[next_];
    if (part_bytes_ != 0 || bytes.size() != spec.byte_size()) {
      fail_count(spec, part_bytes_ + bytes.size());
    }
  }
  write_part(name, bytes);
}

FileReport SafetensorsWriter::finish() {
  if (part_bytes_ == 0) skip_empty_tensors();
  if (next_ < specs_.size()) {
    std::vector<std::string> missing;
    for (std::size_t i = next_; i < specs_.size(); ++i) missing.push_back(shown(specs_[i].name));
    fail({.what = "tensors were not written, so the file is not made",
          .where = path_.string(),
          .expected = std::to_string(specs_.size()) + " tensors",
          .found = std::to_string(next_) + " written; missing:" + listed(missing)});
  }
  return sink_->finish();
}

}  // namespace kha
