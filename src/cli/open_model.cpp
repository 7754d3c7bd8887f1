#include "cli/open_model.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kha/core/byte_tokenizer.h"
#include "kha/core/error.h"
#include "kha/core/model_folder.h"

namespace kha::cli {
namespace {

// Ids of another tokenizer would come out as other bytes, without an error.
void require_byte_tokenizer(const std::filesystem::path& folder) {
  const auto file = folder / "tokenizer.json";
  if (!std::filesystem::exists(file)) return;
  using nlohmann::json;
  std::ifstream stream(file);
  const json found = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  const json wanted = json::parse(ByteTokenizer::tokenizer_json());
  const auto vocabulary = json::json_pointer("/model/vocab");
  const auto merges = json::json_pointer("/model/merges");
  const bool same = found.is_object() && found.value(vocabulary, json()) == wanted.at(vocabulary) &&
                    found.value(merges, json()) == wanted.at(merges);
  if (same) return;
  fail({.what = "this model has a tokenizer that is not read here",
        .where = file.string(),
        .expected = "the byte tokenizer: 256 bytes and the end mark, no merges",
        .next = "use the model with the transformers package; it reads this tokenizer.json"});
}

}  // namespace

LoadedModel open_model(const std::filesystem::path& folder) {
  const auto model_folder = resolve_model_folder(folder);
  require_byte_tokenizer(model_folder);
  LoadedModel model = load_model(model_folder);
  for (const auto& warning : model.warnings) fmt::print(stderr, "warning: {}\n", warning);
  return model;
}

}  // namespace kha::cli
