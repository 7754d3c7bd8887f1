// The part of a checkpoint beside the model, in STEP/trainer/: where the run stands, its settings,
// and the optimiser's state by parameter name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/training_state.h"
#include "train/optimizer.h"

namespace kha {

// Writes trainer/state.json, trainer/config.toml and trainer/optimizer.safetensors.
void write_training_state(const std::filesystem::path& checkpoint, const TrainingState& state,
                          const RunConfig& config, const Optimizer& optimizer);

RunConfig read_checkpoint_config(const std::filesystem::path& checkpoint);

struct OptimizerMatch {
  std::vector<std::string> kept, fresh, unused;  // parameter names
};
// Copies the moments of every parameter that the file knows by name; the others stay fresh. Fails
// for moments of another shape than their parameter.
OptimizerMatch read_optimizer_state(const std::filesystem::path& checkpoint, Optimizer& optimizer);

}  // namespace kha
