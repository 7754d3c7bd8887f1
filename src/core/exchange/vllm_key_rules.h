// What vLLM's classes need the keys of config.json to say.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/exchange/vllm_tensors.h"

namespace kha {

// Appends a sentence to `broken` for each key that is absent or says something else.
void check_vllm_keys(const VllmClass& architecture, const nlohmann::json& config,
                     std::vector<std::string>& broken);

}  // namespace kha
