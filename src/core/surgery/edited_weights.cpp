#include "core/surgery/edited_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"

namespace kha {
namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

class Writer {
 public:
  Writer(const ModelFiles& source, const std::set<std::string>& wanted,
         const WeightChanges& changes, std::filesystem::path folder)
      : source_(source), wanted_(wanted), changes_(changes), folder_(std::move(folder)) {}

  void run() {
    for (const SafetensorsFile& file : source_.files()) write_file(file);
    const auto& first = source_.files().front().path().filename();
    if (source_.files().size() > 1 || first != single_name) write_index();
  }

 private:
  void write_file(const SafetensorsFile& file) {
    std::vector<TensorSpec> specs;
    for (const TensorInfo& info : file.tensors()) {
      if (wanted_.count(info.name)) specs.push_back({info.name, info.dtype, shape_of(info)});
    }
    if (specs.empty()) return;  // a shard of nothing but folded maps
    const std::string name = file.path().filename().string();
    SafetensorsWriter writer(folder_ / name, specs, file.metadata());
    for (const TensorSpec& spec : specs) {
      write_tensor(writer, file, file.at(spec.name));
      file.let_go(file.at(spec.name));
      weight_map_[spec.name] = name;
      total_size_ += spec.byte_size();
    }
    writer.finish();
  }

  void write_tensor(SafetensorsWriter& writer, const SafetensorsFile& file,
                    const TensorInfo& info) {
    const auto edit = changes_.edits.find(info.name);
    const auto reshape = changes_.reshaped.find(info.name);
    if (edit == changes_.edits.end() && reshape == changes_.reshaped.end())
      return writer.write(info.name, file.bytes(info));
    std::vector<double> values = source_.as_double(info.name);
    if (edit != changes_.edits.end()) edit->second(values);
    if (reshape != changes_.reshaped.end()) values = reshape->second.values(values);
    writer.write(info.name, rounded_bytes(source_, info, values, info.dtype));
  }

  std::vector<int64_t> shape_of(const TensorInfo& info) const {
    const auto reshape = changes_.reshaped.find(info.name);
    return reshape == changes_.reshaped.end() ? info.shape : reshape->second.shape;
  }

  void write_index() const {
    const nlohmann::ordered_json index{{"metadata", {{"total_size", total_size_}}},
                                       {"weight_map", weight_map_}};
    write_file_atomically(folder_ / index_name, std::string_view(index.dump(2) + "\n"));
  }

  const ModelFiles& source_;
  const std::set<std::string>& wanted_;
  const WeightChanges& changes_;
  std::filesystem::path folder_;
  std::map<std::string, std::string> weight_map_;
  uint64_t total_size_ = 0;
};

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

// Neither infinite nor NaN: some bit of the exponent is clear. The types of is_convertible alone.
template <class Bits>
bool all_below(std::span<const std::byte> bytes, Bits exponent) {
  bool finite = true;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

bool holds_finite(DType dtype, std::span<const std::byte> bytes) {
  if (dtype == DType::f64) return all_below<std::uint64_t>(bytes, 0x7ff0'0000'0000'0000);
  if (dtype == DType::f32) return all_below<std::uint32_t>(bytes, 0x7f80'0000);
  return all_below<std::uint16_t>(bytes, dtype == DType::f16 ? 0x7c00 : 0x7f80);
}

[[noreturn]] void fail_not_finite(const ModelFiles& source, const TensorInfo& info, DType to,
                                  bool before) {
  fail({.what = info.name + " would not be finite when it is written",
        .where = source.file_of(info.name).string(),
        .expected = "values that " + std::string(safetensors_name(to)) + " can hold",
        .cause = before ? "a value is not finite before it is rounded: the training run diverged"
                        : "a value is too large for this type",
        .next = before ? "use an earlier checkpoint" : "choose a wider type, or train in one"});
}

}  // namespace

std::vector<std::byte> rounded_bytes(const ModelFiles& source, const TensorInfo& info,
                                     std::span<const double> values, DType to) {
  std::vector<std::byte> bytes = from_doubles(to, values);
  if (!holds_finite(to, bytes)) fail_not_finite(source, info, to, !all_finite(values));
  return bytes;
}

std::vector<std::byte> edited_bytes(const ModelFiles& source, const TensorInfo& info,
                                    const TensorEdit& edit, DType to) {
  std::vector<double> values = source.as_double(info.name);
  edit(values);
  return rounded_bytes(source, info, values, to);
}

void write_edited_weights(const ModelFiles& source, const std::set<std::string>& wanted,
                          const WeightChanges& changes, const std::filesystem::path& folder) {
  Writer(source, wanted, changes, folder).run();
}

}  // namespace kha
