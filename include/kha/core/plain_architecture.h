// Public architectures that compute a model of ours exactly, so that programs that know nothing of
// kha run it.
#pragma once

#include <string>

#include "kha/core/model_config.h"

namespace kha {

struct PlainArchitecture {
  std::string model_type;  // of config.json: "qwen3"
  std::string class_name;  // in transformers: "Qwen3ForCausalLM"
};

// Of a model without maps: grouped-query attention is qwen3, or without QK-norm qwen2 or llama;
// latent attention with one latent is deepseek_v3 with dense layers. Errors, with the reason and
// the next step: an attention or maps that no public architecture has. `where` is named in them.
PlainArchitecture plain_architecture(const ModelConfig& config, const std::string& where);

}  // namespace kha
