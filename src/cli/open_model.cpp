#include "cli/open_model.h"

#include <fmt/format.h>

#include "kha/core/model_folder.h"
#include "kha/core/model_tokenizer.h"

namespace kha::cli {

LoadedModel open_model(const std::filesystem::path& folder) {
  const auto model_folder = resolve_model_folder(folder);
  LoadedModel model = load_model(model_folder);
  for (const auto& warning : model.warnings) fmt::print(stderr, "warning: {}\n", warning);
  model.tokenizer = open_model_tokenizer(model_folder, model.config.vocab_size);
  return model;
}

}  // namespace kha::cli
