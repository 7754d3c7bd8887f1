// Where a run stands, as each of its checkpoints keeps it in STEP/trainer/: counters, the place in
// the data and what ran in state.json, the optimiser's moments in optimizer.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "kha/core/batch_plan.h"
#include "kha/core/safetensors.h"

namespace kha {

// Which implementation ran, by the part it decides ("torch", "threads", "precision", …): each of
// them changes bits.
using WhatRan = std::map<std::string, std::string>;

struct TrainingState {
  std::int64_t step = 0;    // finished optimiser steps
  std::int64_t tokens = 0;  // predicted positions so far
  double seconds = 0;       // spent in training so far
  DataPosition data = {};   // of the next batch
  // Batches that going back left out (train.spike): the data is so far ahead of the step.
  std::int64_t batches_left_out = 0;
  WhatRan ran = {};

  // The batch plan's number of the next batch.
  std::int64_t batch() const { return step + batches_left_out; }
};

// The text of trainer/state.json.
std::string to_json(const TrainingState& state);

// CHECKPOINT/trainer/state.json. Errors: absent (a model without a trainer/ part), no JSON object,
// a key absent, twice or of another type, numbers below zero, a version that this kha does not
// know, a step that is not the data's or the manifest's.
TrainingState read_training_state(const std::filesystem::path& checkpoint);

// CHECKPOINT/trainer/optimizer.safetensors: of each parameter the tensors mean.NAME and square.NAME
// in the parameter's shape and steps.NAME, a scalar, all of float32.
// Errors: a tensor of the three absent, of another type or shape, one of another name, and values
// that no training leaves: a mean that is not finite, a square below zero or NaN, steps that are no
// whole number from zero on.
SafetensorsFile open_moments(const std::filesystem::path& checkpoint);

// Fails for that file, with what can be done instead. `tensor` is empty where it is about several.
[[noreturn]] void refuse_moments(const std::filesystem::path& checkpoint, const std::string& tensor,
                                 const std::string& expected, const std::string& found);

}  // namespace kha
