#include "core/exchange/read_back.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kha/core/check_tensors.h"
#include "kha/core/error.h"
#include "kha/core/model_config.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_difference(const fs::path& where, const std::string& what,
                                  const std::string& expected, const std::string& found) {
  fail({.what = "what was written does not read back: " + what,
        .where = where.string(),
        .expected = expected,
        .found = found,
        .cause = "another program changed it, or the disk or the memory returned other bytes",
        .next = "nothing was kept; write to another disk"});
}

void compare_files(const fs::path& folder, const WrittenWeights& written) {
  for (const auto& [name, report] : written.files) {
    const FileReport found = report_file(folder / name);
    if (found == report) continue;
    fail_difference(folder / name, "another content",
                    fmt::format("{} bytes, checksum {}", report.size, to_hex(report.checksum)),
                    fmt::format("{} bytes, checksum {}", found.size, to_hex(found.checksum)));
  }
}

std::string text_of(DType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", safetensors_name(dtype), fmt::join(shape, ", "));
}

void compare_tensors(const ModelFiles& files, const std::vector<PlannedTensor>& planned) {
  if (files.names().size() != planned.size()) {
    fail_difference(files.files().front().path(), "another number of tensors",
                    std::to_string(planned.size()), std::to_string(files.names().size()));
  }
  for (const auto& [spec, edit, start, copy_of] : planned) {
    const TensorInfo* found = files.find(spec.name);
    const std::string expected = text_of(spec.dtype, spec.shape);
    const std::string there = found ? text_of(found->dtype, found->shape) : "nothing";
    if (there != expected)
      fail_difference(files.files().front().path(), spec.name, expected, there);
  }
}

}  // namespace

void read_back(const fs::path& folder, const std::vector<PlannedTensor>& planned,
               const WrittenWeights& written) {
  compare_files(folder, written);
  const ModelFiles files = ModelFiles::open(folder);
  compare_tensors(files, planned);
  check_tensors(files, read_model_config(folder));
}

}  // namespace kha
