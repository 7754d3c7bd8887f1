// The start of a model: every parameter drawn from its own generator.
#pragma once

#include "kha/core/model_config.h"
#include "modules/parameters.h"

namespace kha {

// float32 tensors on the CPU. Each is keyed by (seed, its name), so an added map moves no other
// weight: the arms of a comparison start equal.
Parameters initialise(const ModelConfig& config, KnockStart start, int64_t seed);

struct ParameterSpec;
at::Tensor initial_tensor(const ParameterSpec& spec, double standard_deviation, int64_t seed);

}  // namespace kha
