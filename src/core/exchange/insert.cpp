#include "kha/core/insert.h"

#include <fmt/format.h>

#include "core/exchange/model_file.h"
#include "core/exchange/sharded_weights.h"
#include "core/surgery/new_folder.h"
#include "core/surgery/side_files.h"
#include "kha/core/attention_system.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/error.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

void check_options(const InsertOptions& options, const ModelConfig& config,
                   const std::string& where) {
  if (!options.knocks.any()) {
    fail({.what = "this setting has no maps, so there is nothing to insert",
          .next = "choose another: kha insert --help"});
  }
  for (const int64_t layer : options.layers) {
    if (layer >= 0 && layer < config.num_hidden_layers) continue;
    fail({.what = "the model has no such layer",
          .where = where,
          .expected = fmt::format("0 to {}", config.num_hidden_layers - 1),
          .found = std::to_string(layer)});
  }
}

KnockKind inserted(const ModelConfig& config, int64_t layer, KnockSlot slot, KnockKind wanted,
                   const std::string& where) {
  const KnockKind own = config.knocks.at(layer).at(slot);
  if (wanted == KnockKind::none || own == KnockKind::none) {
    return wanted == KnockKind::none ? own : wanted;
  }
  fail({.what = fmt::format("layer {} has a map on {} already", layer, to_string(slot)),
        .where = where,
        .found = to_string(own),
        .next = "name layers without one (--layers), or fold first: kha fold"});
}

ModelKnocks knocks_after(const ModelConfig& config, const InsertOptions& options,
                         const std::string& where) {
  std::vector<LayerKnocks> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerKnocks knocks = config.knocks.at(layer);
    const bool chosen = options.layers.empty() || options.layers.count(layer);
    for (const KnockSlot slot : knock_slots) {
      if (chosen) knocks.at(slot) = inserted(config, layer, slot, options.knocks.at(slot), where);
    }
    layers.push_back(knocks);
  }
  return as_model_knocks(layers);
}

// The type of the projection in front of each map, by the map's prefix.
DType type_of_map(const ModelFiles& files, const ModelConfig& config, const ParameterSpec& spec) {
  const AttentionDeclaration& system = attention_declaration(config.attention, "");
  for (const KnockPlace& place : system.places) {
    if (!spec.name.starts_with(knock_name(spec.layer, place.slot, ""))) continue;
    return files.at(attention_prefix(spec.layer) + place.projection(config) + ".weight").dtype;
  }
  return DType::f32;
}

std::vector<PlannedTensor> plan_tensors(const ModelFiles& files, InsertReport& report) {
  std::vector<PlannedTensor> tensors;
  for (const auto& spec : parameter_table(report.after)) {
    if (const TensorInfo* info = files.find(spec.name)) {
      tensors.push_back({.spec = {spec.name, info->dtype, spec.shape}});
      continue;
    }
    tensors.push_back({.spec = {spec.name, type_of_map(files, report.after, spec), spec.shape},
                       .start = spec.init});
    report.added.push_back(spec.name);
  }
  return tensors;
}

}  // namespace

InsertReport insert_maps(const fs::path& in, const fs::path& out, const InsertOptions& options) {
  require_free(out);
  const std::string where = (in / "config.json").string();
  InsertReport report{
      .before = read_model_config(in), .after = {}, .added = {}, .warnings = {}, .left_out = {}};
  check_options(options, report.before, where);
  report.after = report.before;
  report.after.knocks = knocks_after(report.before, options, where);
  validate(report.after, where);
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  report.warnings = check_tensors(files, report.before).warnings;
  NewFolder folder(out);
  write_sharded_weights(files, plan_tensors(files, report), options.shard_size, folder.folder());
  report.left_out = copy_side_files(in, folder.folder(), /*model_code=*/false).left_out;
  write_settings(folder.folder(), report.after, config_json_with_model_file(report.after));
  write_model_file(folder.folder());
  check_tensors(ModelFiles::open(folder.folder()), read_model_config(folder.folder()));
  folder.commit();
  return report;
}

}  // namespace kha
