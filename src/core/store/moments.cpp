#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/training_state.h"

namespace kha {
namespace {

constexpr std::array<std::string_view, 3> kinds{"mean.", "square.", "steps."};
constexpr const char* beside_the_others = "a tensor of this name beside the other two";

std::string without_moments(const std::filesystem::path& checkpoint) {
  return "use another checkpoint of the run, or start from this one's weights with fresh moments: "
         "--set init.from=" +
         checkpoint.string() + " --set init.optimizer=false";
}

std::filesystem::path moments_path(const std::filesystem::path& checkpoint) {
  return checkpoint / "trainer" / "optimizer.safetensors";
}

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& tensor,
                         const std::string& expected, const std::string& found) {
  refuse_moments(file.path().parent_path().parent_path(), tensor, expected, found);
}

SafetensorsFile open_file(const std::filesystem::path& checkpoint) {
  try {
    return SafetensorsFile::open(moments_path(checkpoint));
  } catch (const Error& error) {
    Diagnosis diagnosis = error.diagnosis();
    diagnosis.next = without_moments(checkpoint);
    fail(std::move(diagnosis));
  }
}

// Whether all values pass; files need not be aligned.
template <class Test>
bool all_values(std::span<const std::byte> bytes, Test passes) {
  bool all = true;
  for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + at, sizeof(float));
    all &= passes(value);
  }
  return all;
}

const TensorInfo& tensor_of(const SafetensorsFile& file, const std::string& name,
                            std::span<const std::int64_t> shape) {
  const TensorInfo* info = file.find(name);
  if (!info) refuse(file, name, beside_the_others, "none");
  if (info->dtype != DType::f32) {
    refuse(file, name, "float32", std::string(safetensors_name(info->dtype)));
  }
  if (!std::ranges::equal(info->shape, shape)) {
    refuse(file, name, "shape " + shape_text(shape), shape_text(info->shape));
  }
  return *info;
}

template <class Test>
void check_values(const SafetensorsFile& file, const TensorInfo& info, Test passes,
                  const std::string& expected) {
  if (all_values(file.bytes(info.name), passes)) return;
  refuse(file, info.name, expected, "values that are none");
}

void check_parameter(const SafetensorsFile& file, const std::string& name,
                     std::span<const std::int64_t> shape) {
  check_values(
      file, tensor_of(file, "mean." + name, shape), [](float x) { return std::isfinite(x); },
      "finite numbers");
  // A square may have overflowed: its parameter stands still, and training goes on.
  check_values(
      file, tensor_of(file, "square." + name, shape), [](float x) { return x >= 0; },
      "numbers from 0 on");
  check_values(
      file, tensor_of(file, "steps." + name, {}),
      [](float x) { return x >= 0 && std::isfinite(x) && x == std::floor(x); },
      "a whole number from 0 on");
}

}  // namespace

SafetensorsFile open_moments(const std::filesystem::path& checkpoint) {
  SafetensorsFile file = open_file(checkpoint);
  for (const TensorInfo& info : file.tensors()) {
    const auto kind = std::ranges::find_if(
        kinds, [&](std::string_view prefix) { return info.name.starts_with(prefix); });
    if (kind == kinds.end()) {
      refuse(file, info.name, "mean.NAME, square.NAME or steps.NAME of a parameter", "this name");
    }
    const std::string name = info.name.substr(kind->size());
    if (kind == kinds.begin()) {
      check_parameter(file, name, info.shape);
    } else if (!file.find("mean." + name)) {
      refuse(file, "mean." + name, beside_the_others, "none");
    }
  }
  return file;
}

void refuse_moments(const std::filesystem::path& checkpoint, const std::string& tensor,
                    const std::string& expected, const std::string& found) {
  const std::string place = tensor.empty() ? "" : ", tensor `" + shown(tensor) + "`";
  fail({.what = "the optimiser state cannot be used",
        .where = moments_path(checkpoint).string() + place,
        .expected = expected,
        .found = found,
        .cause = "the file was edited, or is that of another model or program",
        .next = without_moments(checkpoint)});
}

}  // namespace kha
