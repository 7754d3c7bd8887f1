// A model's weights written again with some tensors changed and some left out: same files, same
// order, same types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/surgery/fold_plan.h"
#include "kha/core/model_files.h"

namespace kha {

// A tensor that takes another shape: its new values from the old ones.
struct TensorReshape {
  std::vector<int64_t> shape;
  std::function<std::vector<double>(const std::vector<double>&)> values;
};

// What changes, by tensor name; no name is in both. The other tensors keep their bytes.
struct WeightChanges {
  std::map<std::string, TensorEdit> edits = {};
  std::map<std::string, TensorReshape> reshaped = {};
};

// Values of one tensor as `to` holds them, each rounded once. Errors: one is not finite, before or
// after rounding; the message names the tensor.
std::vector<std::byte> rounded_bytes(const ModelFiles& source, const TensorInfo& info,
                                     std::span<const double> values, DType to);

// A tensor widened to float64, edited, and rounded so.
std::vector<std::byte> edited_bytes(const ModelFiles& source, const TensorInfo& info,
                                    const TensorEdit& edit, DType to);

// Writes the tensors named in `wanted` into `folder`, shard by shard, and an index when the source
// has one. Tensors with a change are widened to float64, changed, rounded once to their own type.
// Errors: a changed value is not finite (before or after rounding).
void write_edited_weights(const ModelFiles& source, const std::set<std::string>& wanted,
                          const WeightChanges& changes, const std::filesystem::path& folder);

}  // namespace kha
