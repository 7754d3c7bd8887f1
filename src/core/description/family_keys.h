// What the classes of transformers differ in: norms, biases, defaults, and the words for latent
// attention.
#pragma once

#include <string>

#include "core/description/object_reader.h"
#include "kha/core/model_config.h"

namespace kha {

// The types whose class is this decoder, dense or with the experts of expert_keys.h.
bool is_plain_type(const std::string& type);
// deepseek_v2 and deepseek_v3: latent attention, with or without experts.
bool is_latent_type(const std::string& type);
// Of both, for messages.
std::string type_list();

// "Qwen3ForCausalLM"
std::string class_of(const std::string& type);

// Tokens a text may have where config.json does not say.
int64_t default_context(const std::string& type);

// Reads what is the family's own; sizes and rotary keys must have been read. Fails for what the
// decoder does not compute: windows, biases in the feed-forward.
void read_family(ObjectReader& in, const std::string& type, ModelConfig& config);

}  // namespace kha
