// A model folder (config.json, tokenizer, model.safetensors) as tensors, and back.
#pragma once

#include <filesystem>

#include "kha/core/model_config.h"
#include "kha/core/model_files.h"
#include "kha/core/tokenizer.h"
#include "modules/parameters.h"

namespace kha {

struct LoadedModel {
  ModelConfig config;
  Parameters parameters;                   // float32 on the CPU
  std::vector<std::string> warnings = {};  // to be shown, e.g. a stored head that is not used
  std::shared_ptr<const Tokenizer> tokenizer = byte_tokenizer();
};

// Reads a model folder, or a run folder's latest checkpoint. Every tensor of the description must
// be there with its shape and no other; errors name tensor, file and remedy. The tokenizer stays
// the byte tokenizer: whoever needs the model's own opens it (kha/core/model_tokenizer.h).
LoadedModel load_model(const std::filesystem::path& folder);

// One tensor as float32 on the CPU.
at::Tensor read_parameter(const ModelFiles& files, const std::string& name);

// The float32 tensors that `config` describes.
Parameters read_parameters(const ModelFiles& files, const ModelConfig& config);

// Writes config.json, generation_config.json, model.safetensors and the tokenizer's files into an
// existing folder.
void write_model(const std::filesystem::path& folder, const ModelConfig& config,
                 const Parameters& parameters, const Tokenizer& tokenizer);

}  // namespace kha
