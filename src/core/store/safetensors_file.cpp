#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "core/store/foreign_format.h"
#include "core/store/safetensors_header.h"
#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"
#include "kha/core/safetensors.h"

namespace kha {
namespace {

constexpr const char* cut_short =
    "the file is cut (an unfinished download or copy, or a full disk) or damaged";

std::string at_byte(const std::filesystem::path& path, std::uint64_t offset) {
  return path.string() + ", byte " + std::to_string(offset);
}

std::string range_text(const TensorInfo& tensor) {
  return "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ")";
}

std::string named_range(const TensorInfo& tensor) {
  return shown(tensor.name) + " " + range_text(tensor);
}

void refuse_foreign_format(const MappedFile& file) {
  if (file.bytes().empty()) {
    fail({.what = "the safetensors file is empty",
          .where = file.path().string(),
          .cause = cut_short,
          .next = "download or write it again"});
  }
  const auto foreign = recognise_foreign_format(file.bytes());
  if (!foreign) return;
  fail({.what = "this is no safetensors file",
        .where = file.path().string(),
        .expected = "a safetensors file",
        .found = foreign->name,
        .next = foreign->next});
}

// The header, with its length checked against the file and the limit.
std::string_view header_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.size() < 8) {
    fail({.what = "the safetensors file is too short for its header length",
          .where = file.path().string(),
          .expected = "at least 8 bytes",
          .found = std::to_string(bytes.size()) + " bytes",
          .cause = cut_short});
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > largest_safetensors_header) {
    fail({.what = "the header length of the safetensors file is over the limit",
          .where = at_byte(file.path(), 0),
          .expected = "at most " + std::to_string(largest_safetensors_header) + " bytes",
          .found = std::to_string(length) + " bytes",
          .cause = "this is another kind of file, or its start is damaged"});
  }
  if (length > bytes.size() - 8) {
    fail({.what = "the safetensors file ends inside its header",
          .where = at_byte(file.path(), 0),
          .expected = "a header of " + std::to_string(length) + " bytes",
          .found = std::to_string(bytes.size() - 8) + " bytes after the header length",
          .cause = cut_short});
  }
  return {reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length)};
}

// False when the product leaves 64 bits.
bool checked_byte_size(const TensorInfo& tensor, std::uint64_t& size) {
  size = size_of(tensor.dtype);
  for (const std::int64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(dimension), &size)) return false;
  }
  return true;
}

std::string kind_of(const TensorInfo& tensor) {
  return std::string(safetensors_name(tensor.dtype)) + " " + shape_text(tensor.shape);
}

[[noreturn]] void fail_range(const TensorInfo& tensor, std::uint64_t data_bytes,
                             const std::string& where) {
  if (tensor.begin > tensor.end) {
    fail({.what = "a tensor ends before it begins",
          .where = where,
          .expected = "begin at or before end in data_offsets",
          .found = range_text(tensor)});
  }
  fail({.what = "a tensor reaches past the end of the file",
        .where = where,
        .expected = "a range within the " + std::to_string(data_bytes) + " bytes of data",
        .found = range_text(tensor),
        .cause = cut_short,
        .next = "download or write it again"});
}

// One tensor alone: its range, and its shape against its range.
void check_tensor(const TensorInfo& tensor, std::uint64_t data_bytes,
                  const std::filesystem::path& path) {
  const auto where = [&] { return path.string() + ", tensor " + shown(tensor.name); };
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    fail_range(tensor, data_bytes, where());
  }
  std::uint64_t size = 0;
  if (!checked_byte_size(tensor, size)) {
    fail({.what = "the shape of a tensor is too large for 64 bits",
          .where = where(),
          .found = kind_of(tensor)});
  }
  if (size != tensor.byte_size()) {
    fail({.what = "the shape of a tensor does not match its bytes",
          .where = where(),
          .expected = std::to_string(size) + " bytes for " + kind_of(tensor),
          .found = std::to_string(tensor.byte_size()) + " bytes " + range_text(tensor)});
  }
}

[[noreturn]] void fail_overlap(const TensorInfo& first, const TensorInfo& second,
                               const std::filesystem::path& path) {
  fail(
      {.what = "two tensors of the file claim the same bytes",
       .where = path.string(),
       .expected = "each byte of the data in one tensor",
       .found = named_range(first) + " and " + named_range(second),
       .cause = "the program that wrote the file is at fault; one of the two is not what it says"});
}

// All tensors together, sorted by offset: they must cover the data exactly once.
void check_cover(std::span<const TensorInfo> sorted, std::uint64_t data_bytes,
                 const std::filesystem::path& path) {
  const TensorInfo* previous = nullptr;
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : sorted) {
    if (tensor.begin < covered) fail_overlap(*previous, tensor, path);
    if (tensor.begin > covered) {
      fail({.what = "the data of the file has a gap that belongs to no tensor",
            .where = path.string(),
            .expected = named_range(tensor) + " to begin at " + std::to_string(covered),
            .found = std::to_string(tensor.begin - covered) + " bytes between " +
                     (previous ? named_range(*previous) : std::string("the header")) + " and " +
                     named_range(tensor)});
    }
    previous = &tensor;
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    fail({.what = "the file has bytes after its last tensor",
          .where = path.string(),
          .expected = std::to_string(covered) + " bytes of data" +
                      (previous ? ", the last tensor being " + named_range(*previous) : ""),
          .found = std::to_string(data_bytes) + " bytes of data",
          .cause = "two files were joined, or the header does not belong to this data"});
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(MappedFile file) : file_(std::move(file)) {
  refuse_foreign_format(file_);
  const std::string_view text = header_text(file_);
  data_ = file_.bytes().subspan(8 + text.size());
  SafetensorsHeader header = parse_safetensors_header(text, file_.path());
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  const auto by_range = [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  };
  if (!std::is_sorted(tensors_.begin(), tensors_.end(), by_range)) {
    std::stable_sort(tensors_.begin(), tensors_.end(), by_range);
  }
  index_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
  if (index_.size() < tensors_.size()) read_safetensors_header(text, file_.path());  // fails
  for (const TensorInfo& tensor : tensors_) check_tensor(tensor, data_.size(), file_.path());
  check_cover(tensors_, data_.size(), file_.path());
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return SafetensorsFile(MappedFile::open(path));
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  if (const TensorInfo* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors_) names.push_back(tensor.name);
  fail({.what = "the file has no tensor `" + shown(name) + "`" + did_you_mean(name, names),
        .where = path().string(),
        .found = std::to_string(names.size()) + " other tensors"});
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& info) const {
  return data_.subspan(info.begin, info.byte_size());
}

}  // namespace kha
