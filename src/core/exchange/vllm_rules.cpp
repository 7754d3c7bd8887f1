#include "core/exchange/vllm_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/exchange/vllm_key_rules.h"
#include "core/exchange/vllm_tensors.h"
#include "core/store/text_of_file.h"
#include "kha/core/error.h"
#include "kha/core/model_files.h"

namespace kha {
namespace {

using Json = nlohmann::json;

void check_tensors_of(const VllmClass& architecture, const Json& config, const ModelFiles& files,
                      std::vector<std::string>& broken) {
  const auto wanted = vllm_tensors(architecture, config);
  for (const auto& [name, shape] : wanted) {
    const TensorInfo* info = files.find(name);
    if (!info) {
      broken.push_back(name + " is not there, and the class would be left with what it starts at");
    } else if (info->shape != shape) {
      broken.push_back(fmt::format("{} is [{}], and the class has [{}]", name,
                                   fmt::join(info->shape, ", "), fmt::join(shape, ", ")));
    } else if (name.ends_with("e_score_correction_bias") && info->dtype != DType::f32) {
      broken.push_back(fmt::format("{} is {}, and the class keeps it in float32", name,
                                   safetensors_name(info->dtype)));
    }
  }
  for (const auto& name : files.names()) {
    if (wanted.count(name)) continue;
    broken.push_back(name + (name.ends_with(".bias")
                                 ? " has no place in the class, which drops biases without a word"
                                 : " has no place in the class, and loading stops at it"));
  }
}

Json read_config(const std::filesystem::path& path) {
  Json config = Json::parse(text_of_file(path), nullptr, false);
  if (config.is_object()) return config;
  fail({.what = "this is not a JSON object", .where = path.string()});
}

}  // namespace

std::vector<std::string> broken_vllm_rules(const std::filesystem::path& folder) {
  const Json config = read_config(folder / "config.json");
  const Json classes = config.value("architectures", Json::array());
  const bool named = classes.is_array() && classes.size() == 1 && classes[0].is_string();
  const std::string name = named ? classes[0].get<std::string>() : "";
  const VllmClass* architecture = vllm_class(name);
  if (!architecture) return {"`architectures` names no class that its loader has for an export"};
  std::vector<std::string> broken;
  check_vllm_keys(*architecture, config, broken);
  if (broken.empty() || config.contains("hidden_size"))
    check_tensors_of(*architecture, config, ModelFiles::open(folder), broken);
  return broken;
}

}  // namespace kha
