// The other order of rotated channels: the same model, its rows permuted.
//
// half_split turns channel i with i + w/2, interleaved channel 2i with 2i + 1. From interleaved to
// half_split channel c of w takes the place of channel pi(c) = 2c for c < w/2, else
// 2 (c - w/2) + 1. What stands between a projection and the rotation moves with its rows: biases,
// gains of the norms, and the maps on q and k. What is not rotated stays: values, their maps, the
// plain channels of split heads, o_proj.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/surgery/fold_plan.h"

namespace kha {

// Where each channel of the new layout stood in the other one; `width` is even.
std::vector<int64_t> rotary_sources(int64_t width, const std::string& to_layout);

struct RotaryPlan {
  ModelConfig after;
  std::map<std::string, TensorEdit> edits;  // by tensor name; the others keep their bytes
};

// Errors: the model has this layout already; a layout or an attention that is not known here.
RotaryPlan plan_rotary_layout(const ModelConfig& config, const std::string& to_layout,
                              const std::string& where);

}  // namespace kha
