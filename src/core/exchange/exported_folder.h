// What both forms of an export write, and how they make sure of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/exchange/sharded_weights.h"
#include "kha/core/export.h"

namespace kha {

// Weights, files beside the model and settings into `folder`, then all of it read back. Fills the
// report's files, bytes, left_out and checks. Errors: as write_sharded_weights and read_back.
void write_exported_folder(const std::filesystem::path& in, const ModelFiles& files,
                           const std::vector<PlannedTensor>& tensors, const ExportOptions& options,
                           const std::string& config_text, const std::filesystem::path& folder,
                           ExportReport& report);

}  // namespace kha
