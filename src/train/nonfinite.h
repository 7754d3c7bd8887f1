// A loss or gradient that is not a number ends the run, with its batch kept for the user.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/batch.h"

namespace kha {

struct NonFinite {
  std::filesystem::path folder;  // of the run
  int64_t step = 0;              // the step that could not be made
  double loss = 0;
  std::string parameter;  // the first with a bad gradient; empty: only the loss is bad
  std::vector<Batch> batches;
};

// Writes RUN/failed-step-N.safetensors (inputs, targets, counted of each micro-batch) and throws.
[[noreturn]] void stop_for_nonfinite(const NonFinite& event);

}  // namespace kha
