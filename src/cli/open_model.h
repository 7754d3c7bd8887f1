// A model that a command was given, its warnings shown.
#pragma once

#include <filesystem>

#include "model/model_io.h"

namespace kha::cli {

// load_model; warnings go to standard error.
LoadedModel open_model(const std::filesystem::path& folder);

}  // namespace kha::cli
