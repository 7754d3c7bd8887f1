// Tensors of a model written anew: in a given order and type, in files of a given size, some of
// them changed and some new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/surgery/fold_plan.h"
#include "kha/core/init.h"
#include "kha/core/model_files.h"

namespace kha {

// Of the source: rounded to the type of `spec`, or its own bytes where that is the type; with an
// edit widened to float64, edited and rounded once. With a `start` it is not in the source.
struct PlannedTensor {
  TensorSpec spec;
  TensorEdit edit = {};
  std::optional<Init> start = {};  // identity or zeros
};

struct WrittenWeights {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};

// model.safetensors, or model-00001-of-0000N.safetensors and their index where the tensors are more
// than `shard_size` bytes. Errors: a value is not finite in the type written (tensor and cause).
WrittenWeights write_sharded_weights(const ModelFiles& source,
                                     const std::vector<PlannedTensor>& tensors,
                                     std::uint64_t shard_size, const std::filesystem::path& folder);

}  // namespace kha
