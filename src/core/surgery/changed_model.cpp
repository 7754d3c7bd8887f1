#include "core/surgery/changed_model.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/store/text_of_file.h"
#include "core/surgery/new_folder.h"
#include "kha/core/check_tensors.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_of(const ModelConfig& config) {
  std::set<std::string> names;
  for (const auto& spec : parameter_table(config)) names.insert(spec.name);
  return names;
}

// A model that still has maps still needs the model file that `auto_map` names.
std::string new_config_text(const fs::path& in, const ModelConfig& after) {
  auto written = nlohmann::ordered_json::parse(to_config_json(after));
  const auto before = nlohmann::ordered_json::parse(text_of_file(in / "config.json"));
  const auto entry = before.find("auto_map");
  if (!after.plain() && entry != before.end()) written["auto_map"] = *entry;
  return written.dump(2) + "\n";
}

}  // namespace

SideFiles write_changed_model(const fs::path& in, const ModelFiles& files, const ModelConfig& after,
                              const WeightChanges& changes, const fs::path& out) {
  NewFolder place(out);
  const fs::path& folder = place.folder();
  write_edited_weights(files, names_of(after), changes, folder);
  SideFiles side = copy_side_files(in, folder, /*model_code=*/!after.plain());
  write_settings(folder, after, new_config_text(in, after));
  // What was written is read back as any loader would: exactly the tensors of the new config.
  check_tensors(ModelFiles::open(folder), read_model_config(folder));
  place.commit();
  return side;
}

}  // namespace kha
