// What a model description allows but hardly means.
#pragma once

#include <string>
#include <vector>

#include "kha/core/model_config.h"

namespace kha {

// Sentences to be shown once: linear maps that one KV head shares with nobody, head widths that
// attention kernels are slow at. A description without such a thing gives none.
std::vector<std::string> model_warnings(const ModelConfig& config);

}  // namespace kha
