// Which implementation ran, as data: written into run and checkpoint, compared on resume.
#pragma once

#include <string>
#include <vector>

#include "kha/core/run_config.h"
#include "kha/core/training_state.h"
#include "train/gradient.h"

namespace kha {

// Resolves precision, device and plan of a run. A missing device, or bf16 on a CUDA-less build, is
// an Error; bf16 on a CPU without it adds a warning.
Arithmetic resolve_arithmetic(const RunConfig& config, std::vector<std::string>& warnings);

WhatRan what_ran(const Arithmetic& arithmetic);
// The same, and what this model leaves to a composition: an interleaved rotary embedding has no
// operator of its own.
WhatRan what_ran(const Arithmetic& arithmetic, const ModelConfig& model);

// "threads: 2 -> 4" for each difference.
std::vector<std::string> differences(const WhatRan& before, const WhatRan& after);

}  // namespace kha
