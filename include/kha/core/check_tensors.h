// Do the tensors of a model on disk and its config.json describe one model?
//
// Every loader and every transformation asks this before it touches a weight: exactly the tensors
// of parameter_table, in their shapes, each a type of numbers. Nothing missing, nothing unread.
#pragma once

#include <string>
#include <vector>

#include "kha/core/model_config.h"
#include "kha/core/model_files.h"

namespace kha {

struct TensorCheck {
  // Tensors in the file that the model does not read: a head that config.json ties, and layers
  // behind the last that predict further tokens (they hold an `eh_proj`).
  std::vector<std::string> unread;
  // Sentences to be shown: the stored head is not the embedding that is used in its place, layers
  // are not read, shared experts are zeros.
  std::vector<std::string> warnings;
};

// Errors, each naming tensor and file: missing tensors (an untied model without a head: both
// remedies), tensors that the model would not read, other shapes (in words of the config: "the file
// has 8 KV heads, config.json says 2"), types that are not numbers.
TensorCheck check_tensors(const ModelFiles& files, const ModelConfig& config);

}  // namespace kha
