// A written model opened again before it appears under its name.
#pragma once

#include <filesystem>
#include <vector>

#include "core/exchange/sharded_weights.h"

namespace kha {

// Reads the folder as any loader would and compares it with what was to be written: the tensors of
// `planned`, each with its shape and type and no other, in files of the sizes and checksums that
// `written` names, and a config.json that describes them. Errors, each naming file or tensor: a
// difference, which is a fault of the disk or of kha.
void read_back(const std::filesystem::path& folder, const std::vector<PlannedTensor>& planned,
               const WrittenWeights& written);

}  // namespace kha
