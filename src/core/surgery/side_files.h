// What stands beside the weights of a model and goes along with a changed copy of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/model_config.h"

namespace kha {

struct SideFiles {
  std::vector<std::string> copied;
  std::vector<std::string> left_out;  // weights of other formats, sub-folders, manifests, code
};

// Copies tokenizer, generation settings, licence and the like, by name and synced. config.json and
// the safetensors files are the caller's. What holds or describes the old weights is left out,
// hidden files silently. Without `model_code` the Python files of a model that brings its own code
// stay behind too.
SideFiles copy_side_files(const std::filesystem::path& from, const std::filesystem::path& to,
                          bool model_code = true);

// What describes the new model, beside its weights: config.json with this text, and the generation
// settings of `config` where none were copied.
void write_settings(const std::filesystem::path& folder, const ModelConfig& config,
                    const std::string& config_text);

}  // namespace kha
