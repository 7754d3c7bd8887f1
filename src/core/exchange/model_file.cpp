#include "core/exchange/model_file.h"

#include <cassert>
#include <nlohmann/json.hpp>

#include "kha/core/atomic_file.h"

namespace kha {

void write_model_file(const std::filesystem::path& folder) {
  for (const ModelFilePart& part : model_file_parts()) {
    write_file_atomically(folder / part.name, part.text);
  }
}

std::string config_json_with_model_file(const ModelConfig& config) {
  assert(!config.plain());
  auto json = nlohmann::ordered_json::parse(to_config_json(config));
  json["auto_map"] = {{"AutoConfig", "configuration_kha.KhaConfig"},
                      {"AutoModel", "modeling_kha.KhaModel"},
                      {"AutoModelForCausalLM", "modeling_kha.KhaForCausalLM"}};
  return json.dump(2) + "\n";
}

}  // namespace kha
