// The fields that describe a model, its mixture of experts, and the training of that.
#pragma once

#include <vector>

#include "kha/core/run_config.h"

namespace kha {

void add_model_fields(std::vector<Field>& fields, RunConfig& config);
void add_mixture_fields(std::vector<Field>& fields, RunConfig& config);
void add_expert_fields(std::vector<Field>& fields, RunConfig& config);

}  // namespace kha
