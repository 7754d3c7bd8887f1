// config.json of a model in the words of its public architecture.
#pragma once

#include <string>

#include "kha/core/model_config.h"

namespace kha {

// Of a model that plain_architecture accepts, its tensors edited by add_architecture_edits.
std::string exported_config_json(const ModelConfig& config);

}  // namespace kha
