// A mixture of experts in config.json: the keys of Qwen3-MoE (softmax router) and of Glm4-MoE
// (sigmoid router with a selection bias), read, written and checked.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/description/object_reader.h"
#include "kha/core/model_config.h"

namespace kha {

// `type`: qwen3 (no experts), qwen3_moe or glm4_moe; of a model of type `kha` what it is based on,
// and then the keys that the class of transformers lacks are read too. Layers and width must have
// been read already.
void read_experts(ObjectReader& in, const std::string& type, bool kha, ModelConfig& config);

// Those of DeepSeek's models, whose attention is latent: V3's sigmoid router and V2's softmax
// router, both with groups. A model whose layers are all dense has none, whatever it says of them.
void read_latent_experts(ObjectReader& in, const std::string& type, ModelConfig& config);

void write_experts(nlohmann::ordered_json& json, const ModelConfig& config);

// Sizes, and that they fit; `where` is named in the message.
void validate_experts(const ModelConfig& config, const std::string& where);

}  // namespace kha
