#include "cli/open_model.h"

#include <fmt/format.h>

namespace kha::cli {

LoadedModel open_model(const std::filesystem::path& folder) {
  LoadedModel model = load_model(folder);
  for (const auto& warning : model.warnings) fmt::print(stderr, "warning: {}\n", warning);
  return model;
}

}  // namespace kha::cli
