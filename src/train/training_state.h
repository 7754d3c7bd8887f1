// The part of a checkpoint beside the model: optimiser state by parameter name, counters, data
// position, what ran. It lives in STEP/trainer/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/batch_plan.h"
#include "train/optimizer.h"
#include "train/what_ran.h"

namespace kha {

struct TrainingState {
  int64_t step = 0;    // finished optimiser steps
  int64_t tokens = 0;  // predicted positions so far
  double seconds = 0;  // spent in training so far
  DataPosition data;   // of the next batch
  // Batches that going back left out (train.spike): the data is so far ahead of the step.
  int64_t batches_left_out = 0;
  WhatRan ran;

  // The batch plan's number of the next batch.
  int64_t batch() const { return step + batches_left_out; }
};

// Writes trainer/state.json, trainer/config.toml and trainer/optimizer.safetensors.
void write_training_state(const std::filesystem::path& checkpoint, const TrainingState& state,
                          const RunConfig& config, const Optimizer& optimizer);

TrainingState read_training_state(const std::filesystem::path& checkpoint);
RunConfig read_checkpoint_config(const std::filesystem::path& checkpoint);

struct OptimizerMatch {
  std::vector<std::string> kept, fresh, unused;  // parameter names
};
// Copies the moments of every parameter that the file knows by name; the others stay fresh.
OptimizerMatch read_optimizer_state(const std::filesystem::path& checkpoint, Optimizer& optimizer);

}  // namespace kha
