// A model's weights written again with some tensors changed and some left out: same files, same
// order, same types.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "core/surgery/fold_plan.h"
#include "kha/core/model_files.h"

namespace kha {

// Writes the tensors named in `wanted` into `folder`, shard by shard, and an index when the source
// has one. Tensors with an edit are widened to float64, edited, rounded once to their own type; the
// others keep their bytes. Errors: an edited value is not finite (before or after rounding).
void write_edited_weights(const ModelFiles& source, const std::set<std::string>& wanted,
                          const std::map<std::string, TensorEdit>& edits,
                          const std::filesystem::path& folder);

}  // namespace kha
