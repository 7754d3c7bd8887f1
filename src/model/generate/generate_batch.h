// Several texts from a model at once, one batch, padded in front.
#pragma once

#include <cstdint>
#include <vector>

#include "model/generate/generate.h"

namespace kha {

// What generate() gives for each prompt alone, with the same options and so the same seed: nobody
// sees the padding in front of a shorter prompt, and a text that has ended waits for the others.
// Errors: as generate().
std::vector<GenerateResult> generate_batch(const LoadedModel& model,
                                           const std::vector<std::vector<std::int64_t>>& prompts,
                                           const GenerateOptions& options);

}  // namespace kha
