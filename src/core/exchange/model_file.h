// The model file: Python code by which transformers runs models that none of its classes computes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kha/core/model_config.h"

namespace kha {

struct ModelFilePart {
  std::string_view name, text;
};

// The files of python/knocking_heads/hf_model that stand beside the weights, part of the program
// (cmake/model_file.cmake).
const std::vector<ModelFilePart>& model_file_parts();

// Writes them into the folder of a model that is not plain, and its config.json with the key
// `auto_map` that names their classes.
void write_model_file(const std::filesystem::path& folder);
std::string config_json_with_model_file(const ModelConfig& config);

}  // namespace kha
