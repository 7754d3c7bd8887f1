// A model that a command was given, its warnings shown.
#pragma once

#include <filesystem>

#include "model/model_io.h"

namespace kha::cli {

// load_model of a model or run folder with its own tokenizer; warnings go to standard error.
// Errors: as load_model and open_model_tokenizer.
LoadedModel open_model(const std::filesystem::path& folder);

}  // namespace kha::cli
