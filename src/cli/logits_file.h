// A model's logits as a file, for programs that compare.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "model/model_io.h"

namespace kha::cli {

// A safetensors file: ids [T], logits [T, vocabulary] in float32, logits_float64 (the same computed
// in float64), and continuation [continued]: the ids that follow when the most likely one is always
// taken, computed with the cache.
void write_logits(const std::filesystem::path& file, const LoadedModel& model,
                  const std::vector<int64_t>& ids, int64_t continued);

}  // namespace kha::cli
