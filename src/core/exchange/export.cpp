#include "kha/core/export.h"

#include <algorithm>

#include "core/exchange/architecture_edits.h"
#include "core/exchange/exported_config.h"
#include "core/exchange/linear_maps.h"
#include "core/exchange/sharded_weights.h"
#include "core/surgery/new_folder.h"
#include "core/surgery/side_files.h"
#include "kha/core/atomic_file.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// What is not trained (selection biases) keeps its type: rounded, it would choose other experts.
std::vector<PlannedTensor> plan_tensors(const ModelFiles& files, const FoldPlan& plan,
                                        std::optional<DType> dtype) {
  std::vector<PlannedTensor> tensors;
  for (const auto& spec : parameter_table(plan.after)) {
    const auto edit = plan.edits.find(spec.name);
    const DType stored = files.at(spec.name).dtype, written = dtype.value_or(stored);
    tensors.push_back({.spec = {spec.name, spec.trained ? written : stored, spec.shape},
                       .edit = edit == plan.edits.end() ? TensorEdit() : edit->second});
  }
  return tensors;
}

bool rounds(const ModelFiles& files, const PlannedTensor& tensor) {
  return tensor.edit || tensor.spec.dtype != files.at(tensor.spec.name).dtype;
}

void write_settings(const fs::path& in, const fs::path& folder, ExportReport& report) {
  report.left_out = copy_side_files(in, folder, /*model_code=*/false).left_out;
  if (!fs::exists(folder / "generation_config.json")) {
    write_file_atomically(folder / "generation_config.json",
                          std::string_view(to_generation_config_json(report.model)));
  }
  write_file_atomically(folder / "config.json",
                        std::string_view(exported_config_json(report.model)));
}

}  // namespace

ExportReport export_to_hugging_face(const fs::path& in, const fs::path& out,
                                    const ExportOptions& options) {
  require_free(out);
  const std::string where = (in / "config.json").string();
  const ModelConfig config = read_model_config(in);
  ExportReport report{.architecture = plain_architecture(without_linear_maps(config), where),
                      .model = {},
                      .folded = {},
                      .changes = {},
                      .warnings = {},
                      .left_out = {}};
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  report.warnings = check_tensors(files, config).warnings;
  FoldPlan plan =
      plan_fold(config, {}, [&](const std::string& name) { return read_map(files, name); });
  report.folded = plan.maps;
  report.model = plan.after;
  add_architecture_edits(plan.after, plan.edits, report.changes);
  const auto tensors = plan_tensors(files, plan, options.dtype);
  // That of the tensors: what the model's own file says of them may be false.
  report.model.dtype = name_in_config(tensors.front().spec.dtype);
  report.rounded = std::any_of(tensors.begin(), tensors.end(),
                               [&](const auto& tensor) { return rounds(files, tensor); });
  NewFolder folder(out);
  const WrittenWeights written =
      write_sharded_weights(files, tensors, options.shard_size, folder.folder());
  report.files = written.files;
  report.bytes = written.bytes;
  write_settings(in, folder.folder(), report);
  folder.commit();
  return report;
}

}  // namespace kha
