#include "model/model_io.h"

#include <ATen/Functions.h>

#include "kha/core/atomic_file.h"
#include "kha/core/check_tensors.h"
#include "kha/core/model_folder.h"
#include "model/parameter_layout.h"
#include "model/tensor_bytes.h"

namespace kha {

at::Tensor read_parameter(const ModelFiles& files, const std::string& name) {
  return read_tensor(files.bytes(name), files.at(name)).to(at::kFloat);
}

Parameters read_parameters(const ModelFiles& files, const ModelConfig& config) {
  return make_parameters(config, KnockStart::identity, [&](const ParameterSpec& spec) {
    return read_parameter(files, spec.name);
  });
}

LoadedModel load_model(const std::filesystem::path& folder) {
  const auto model = resolve_model_folder(folder);
  const ModelConfig config = read_model_config(model);
  const ModelFiles files = ModelFiles::open(model);
  const TensorCheck check = check_tensors(files, config);
  return {config, read_parameters(files, config), check.warnings};
}

void write_model(const std::filesystem::path& folder, const ModelConfig& config,
                 const Parameters& parameters, const Tokenizer& tokenizer) {
  write_file_atomically(folder / "config.json", to_config_json(config));
  write_file_atomically(folder / "generation_config.json", to_generation_config_json(config));
  tokenizer.save(folder);
  write_tensors(folder / "model.safetensors", stored_tensors(config, parameters));
}

}  // namespace kha
