// What a model is, in words and figures, from its configuration and the headers of its files.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kha/core/counts.h"
#include "kha/core/model_config.h"
#include "kha/core/model_files.h"

namespace kha::cli {

// All that is counted of one model.
struct ModelSummary {
  std::filesystem::path folder;
  ModelConfig config;
  ParameterCount parameters;
  FlopCount flops;      // at the longest context of the config
  int64_t cache_bytes;  // a token, in the type of the weights
  DType dtype;          // of the key projection
  uint64_t data_bytes;
  size_t files;
};

ModelSummary summarise(const std::filesystem::path& folder, const ModelConfig& config,
                       const ModelFiles& files);

void print_summary(const ModelSummary& summary);
nlohmann::ordered_json summary_json(const ModelSummary& summary);

}  // namespace kha::cli
