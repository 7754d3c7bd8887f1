// A changed copy of a model as a new folder: weights, configuration and what stands beside them.
#pragma once

#include <filesystem>

#include "core/surgery/edited_weights.h"
#include "core/surgery/side_files.h"
#include "kha/core/model_config.h"
#include "kha/core/model_files.h"

namespace kha {

// Writes the model of `in`, whose tensors are `files`, as the model `after` to the new folder
// `out`: tensors that `after` has not are left out, `changes` are made, the files beside the
// weights go along. What was written is read back and checked before `out` appears, whole.
SideFiles write_changed_model(const std::filesystem::path& in, const ModelFiles& files,
                              const ModelConfig& after, const WeightChanges& changes,
                              const std::filesystem::path& out);

}  // namespace kha
