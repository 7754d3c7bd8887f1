// What a KV cache costs in loss: a text decoded through it, in the arithmetic's numbers and in
// int8.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kha/core/model_config.h"
#include "train/evaluate.h"

namespace kha::cli {

struct CacheLoss {
  std::string numbers;  // "float32", "int8 with a float32 scale a head"
  int64_t bytes_per_token = 0;
  Evaluation evaluation;
};

// The kinds from the arithmetic's own numbers up to `kind`; `evaluate` decodes through one of them.
std::vector<CacheLoss> cache_losses(const ModelConfig& config, KvCacheKind kind,
                                    at::ScalarType dtype,
                                    const std::function<Evaluation(KvCacheKind)>& evaluate);

// The difference of the last to the first, where there are two, with its interval over documents.
nlohmann::ordered_json cache_json(const std::vector<CacheLoss>& losses);
std::string cache_table(const std::vector<CacheLoss>& losses);

}  // namespace kha::cli
