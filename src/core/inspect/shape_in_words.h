// A wrong shape in the words of config.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kha/core/model_config.h"
#include "kha/core/parameter_table.h"

namespace kha {

struct OtherShape {
  ParameterSpec expected;
  std::vector<int64_t> found;
};

// Which size of config.json explains the shapes that were found, were it another one.
struct OtherSize {
  OtherShape tensor;
  std::string words;  // "8 KV heads"
  std::string key;    // "num_key_value_heads"
  int64_t found;
  int64_t configured;
};

// Looks first at the tensors whose shape is one size alone (the norms), then at the projections.
// Nothing when no single size explains any of the shapes.
std::optional<OtherSize> size_in_words(const std::vector<OtherShape>& shapes,
                                       const ModelConfig& config);

std::string shape_text(const std::vector<int64_t>& shape);  // "[64, 48]"

}  // namespace kha
