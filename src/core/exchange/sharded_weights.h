// Tensors of a model written anew: in a given order and type, in files of a given size, some of
// them changed and some new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/surgery/fold_plan.h"
#include "kha/core/checksum.h"
#include "kha/core/init.h"
#include "kha/core/model_files.h"

namespace kha {

// Of the source: rounded to the type of `spec`, or its own bytes where that is the type; with an
// edit widened to float64, edited and rounded once. With a `start` it is not in the source.
struct PlannedTensor {
  TensorSpec spec;
  TensorEdit edit = {};
  std::optional<Init> start = {};  // identity of a square matrix, or zeros
  std::string copy_of = {};        // the source's tensor, where it has another name there

  const std::string& source_name() const { return copy_of.empty() ? spec.name : copy_of; }
};

struct WrittenWeights {
  std::map<std::string, FileReport> files = {};  // by name: size and checksum of what was written
  std::uint64_t bytes = 0;                       // of tensors
};

// model.safetensors, or model-00001-of-0000N.safetensors and their index where the tensors are more
// than `shard_size` bytes. Errors: a value is not finite in the type written (tensor and cause).
WrittenWeights write_sharded_weights(const ModelFiles& source,
                                     const std::vector<PlannedTensor>& tensors,
                                     std::uint64_t shard_size, const std::filesystem::path& folder);

}  // namespace kha
