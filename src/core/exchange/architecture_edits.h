// What changes in the tensors of a model when another architecture's code is to compute it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/surgery/fold_plan.h"
#include "kha/core/model_config.h"

namespace kha {

// The epsilon of the latents' norms in transformers' DeepSeek classes, whatever config.json says.
inline constexpr double deepseek_latent_eps = 1e-6;

// Adds, behind the edits that are there, those that plain_architecture(config) needs, and a
// sentence for each kind of change.
void add_architecture_edits(const ModelConfig& config, std::map<std::string, TensorEdit>& edits,
                            std::vector<std::string>& changes);

}  // namespace kha
