// The rotary embedding in config.json, in the old spelling (rope_theta, rope_scaling) and the new
// one (rope_parameters).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/description/object_reader.h"
#include "kha/core/model_config.h"

namespace kha {

// Context length, head width and the object `kha` must have been read already; `base` is the type
// of the plain model. Kinds that the decoder does not compute and keys that are missing are refused
// by name.
void read_rotary(ObjectReader& in, const std::string& base, ModelConfig& config);

// Both spellings.
void write_rotary(nlohmann::ordered_json& json, const ModelConfig& config);

// Fails where the scaling's numbers do not fit; `where` is named in the message.
void validate_rotary(const ModelConfig& config, const std::string& where);

}  // namespace kha
