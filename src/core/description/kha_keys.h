// The object `kha` of config.json: the maps, and the parts of a model that no class of transformers
// has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/description/object_reader.h"
#include "kha/core/model_config.h"

namespace kha {

// Gives the type of the plain model below the maps. `outer` reads the object that holds `kha`.
std::string read_kha(ObjectReader& outer, const nlohmann::json& kha, ModelConfig& config);

void write_kha(nlohmann::ordered_json& json, const ModelConfig& config);

}  // namespace kha
