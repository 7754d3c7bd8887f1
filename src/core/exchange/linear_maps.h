// A model without its linear maps, as folding leaves it.
#pragma once

#include "kha/core/dtype.h"
#include "kha/core/model_config.h"

namespace kha {

// Linear maps fold away whatever they hold; what else is in the model stays.
ModelConfig without_linear_maps(ModelConfig config);

// The name of a stored type in config.json.
std::string name_in_config(DType dtype);

}  // namespace kha
