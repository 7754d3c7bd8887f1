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

// Of a model without maps: grouped-query attention is qwen3, or without QK-norm qwen2 or llama,
// with experts qwen3_moe (softmax router) or glm4_moe (sigmoid router); latent attention with one
// latent is deepseek_v3, or with a softmax router deepseek_v2. Errors, with the reason and the next
// step: an attention, a router or maps that no public architecture has. `where` is named in them.
PlainArchitecture plain_architecture(const ModelConfig& config, const std::string& where);

// The model as plain_architecture(config) holds it: with the shared expert that classes with a
// sigmoid router always build (of zeros where the model has none), and with an output matrix of its
// own where loaders of the class never tie it to the embedding.
ModelConfig as_architecture(ModelConfig config);

}  // namespace kha
