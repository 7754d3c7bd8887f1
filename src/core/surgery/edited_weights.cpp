#include "core/surgery/edited_weights.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"

namespace kha {
namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::vector<std::byte> edited(const ModelFiles& source, const TensorInfo& info,
                              const TensorEdit& edit) {
  std::vector<double> values = source.as_double(info.name);
  edit(values);
  std::vector<std::byte> bytes = from_doubles(info.dtype, values);
  const std::vector<double> rounded = to_doubles(info.dtype, bytes);
  if (!std::all_of(rounded.begin(), rounded.end(),
                   [](double value) { return std::isfinite(value); })) {
    fail({.what = info.name + " would not be finite after folding",
          .where = source.file_of(info.name).string(),
          .expected = "values that " + std::string(safetensors_name(info.dtype)) + " can hold",
          .cause = "the weight is not finite already, or the map is too large for this type",
          .next = "kha inspect shows the maps"});
  }
  return bytes;
}

class Writer {
 public:
  Writer(const ModelFiles& source, const std::set<std::string>& wanted,
         const std::map<std::string, TensorEdit>& edits, std::filesystem::path folder)
      : source_(source), wanted_(wanted), edits_(edits), folder_(std::move(folder)) {}

  void run() {
    for (const SafetensorsFile& file : source_.files()) write_file(file);
    const auto& first = source_.files().front().path().filename();
    if (source_.files().size() > 1 || first != single_name) write_index();
  }

 private:
  void write_file(const SafetensorsFile& file) {
    std::vector<TensorSpec> specs;
    for (const TensorInfo& info : file.tensors()) {
      if (wanted_.count(info.name)) specs.push_back({info.name, info.dtype, info.shape});
    }
    if (specs.empty()) return;  // a shard of nothing but folded maps
    const std::string name = file.path().filename().string();
    SafetensorsWriter writer(folder_ / name, specs, file.metadata());
    for (const TensorSpec& spec : specs) {
      write_tensor(writer, file, file.at(spec.name));
      weight_map_[spec.name] = name;
      total_size_ += spec.byte_size();
    }
    writer.finish();
  }

  void write_tensor(SafetensorsWriter& writer, const SafetensorsFile& file,
                    const TensorInfo& info) {
    const auto edit = edits_.find(info.name);
    if (edit == edits_.end()) {
      writer.write(info.name, file.bytes(info));
    } else {
      writer.write(info.name, edited(source_, info, edit->second));
    }
  }

  void write_index() const {
    const nlohmann::ordered_json index{{"metadata", {{"total_size", total_size_}}},
                                       {"weight_map", weight_map_}};
    write_file_atomically(folder_ / index_name, std::string_view(index.dump(2) + "\n"));
  }

  const ModelFiles& source_;
  const std::set<std::string>& wanted_;
  const std::map<std::string, TensorEdit>& edits_;
  std::filesystem::path folder_;
  std::map<std::string, std::string> weight_map_;
  uint64_t total_size_ = 0;
};

}  // namespace

void write_edited_weights(const ModelFiles& source, const std::set<std::string>& wanted,
                          const std::map<std::string, TensorEdit>& edits,
                          const std::filesystem::path& folder) {
  Writer(source, wanted, edits, folder).run();
}

}  // namespace kha
