// Which folder a user means who names a model.
#pragma once

#include <filesystem>

namespace kha {

// A folder with config.json is itself; a run's folder means its newest checkpoint without a fault.
// Errors: no such folder, a run without a complete checkpoint, a folder that is neither.
std::filesystem::path resolve_model_folder(const std::filesystem::path& folder);

}  // namespace kha
