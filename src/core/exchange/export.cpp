#include "kha/core/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/exchange/architecture_edits.h"
#include "core/exchange/exported_config.h"
#include "core/exchange/exported_folder.h"
#include "core/exchange/linear_maps.h"
#include "core/exchange/sharded_weights.h"
#include "core/exchange/vllm_rules.h"
#include "core/surgery/new_folder.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

constexpr const char* embedding = "model.embed_tokens.weight";

// The type of a tensor that the source has not: that of its neighbours.
DType neighbours_dtype(const ModelFiles& files, const ParameterSpec& spec) {
  if (spec.layer < 0) return files.at(embedding).dtype;
  return files.at(feed_forward_prefix(spec.layer) + "experts.0.up_proj.weight").dtype;
}

// What the architecture has and the model has not: its output matrix is the embedding, its shared
// experts are zeros.
PlannedTensor added_tensor(const ModelFiles& files, const ParameterSpec& spec,
                           std::optional<DType> dtype) {
  PlannedTensor tensor{
      .spec = {spec.name, dtype.value_or(neighbours_dtype(files, spec)), spec.shape}};
  if (spec.role == Role::head) {
    tensor.copy_of = embedding;
  } else {
    tensor.start = Init::zeros;
  }
  return tensor;
}

// What is not trained (selection biases) is float32: narrower it would choose other experts.
std::vector<PlannedTensor> plan_tensors(const ModelFiles& files, const ModelConfig& written,
                                        const FoldPlan& plan, std::optional<DType> dtype) {
  std::set<std::string> own;
  for (const auto& spec : parameter_table(plan.after)) own.insert(spec.name);
  std::vector<PlannedTensor> tensors;
  for (const auto& spec : parameter_table(written)) {
    if (own.count(spec.name) == 0) {
      tensors.push_back(added_tensor(files, spec, dtype));
      continue;
    }
    const auto edit = plan.edits.find(spec.name);
    const DType type = spec.trained ? dtype.value_or(files.at(spec.name).dtype) : DType::f32;
    tensors.push_back({.spec = {spec.name, type, spec.shape},
                       .edit = edit == plan.edits.end() ? TensorEdit() : edit->second});
  }
  return tensors;
}

// A shift of selection biases is none of the values that the model computes with.
bool rounds(const ModelFiles& files, const PlannedTensor& tensor) {
  if (tensor.start || tensor.spec.name.ends_with("e_score_correction_bias")) return false;
  return tensor.edit || tensor.spec.dtype != files.at(tensor.source_name()).dtype;
}

void tell_additions(const ModelConfig& own, const ModelConfig& written, ExportReport& report) {
  if (written.experts.shared != own.experts.shared) {
    const auto layers = own.num_hidden_layers - own.experts.first_dense;
    report.changes.push_back(fmt::format(
        "a shared expert of zeros in {} layer{}, which the class always builds: {} parameters that "
        "change nothing",
        layers, layers == 1 ? "" : "s", 3 * layers * own.experts.width * own.hidden_size));
  }
  if (written.tie_word_embeddings != own.tie_word_embeddings) {
    report.changes.push_back(fmt::format(
        "the embedding written again as lm_head.weight ({} parameters): not every loader of the "
        "class ties the two",
        own.vocab_size * own.hidden_size));
  }
}

void tell_vllm(const fs::path& folder, ExportReport& report) {
  const auto broken = broken_vllm_rules(folder);
  for (const auto& sentence : broken) {
    report.warnings.push_back("vLLM would not compute this folder as transformers does: " +
                              sentence);
  }
  if (!broken.empty()) return;
  report.checks.push_back(
      "vLLM: names, shapes and keys checked against its loader's rules; not executed");
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
                      .checks = {},
                      .warnings = {},
                      .left_out = {}};
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  report.warnings = check_tensors(files, config).warnings;
  FoldPlan plan =
      plan_fold(config, {}, [&](const std::string& name) { return read_map(files, name); });
  report.folded = plan.maps;
  report.model = as_architecture(plan.after);
  add_architecture_edits(plan.after, plan.edits, report.changes);
  tell_additions(plan.after, report.model, report);
  const auto tensors = plan_tensors(files, report.model, plan, options.dtype);
  // That of the tensors: what the model's own file says of them may be false.
  report.model.dtype = name_in_config(tensors.front().spec.dtype);
  report.rounded = std::any_of(tensors.begin(), tensors.end(),
                               [&](const auto& tensor) { return rounds(files, tensor); });
  NewFolder folder(out);
  write_exported_folder(in, files, tensors, options, exported_config_json(report.model),
                        folder.folder(), report);
  tell_vllm(folder.folder(), report);
  folder.commit();
  return report;
}

}  // namespace kha
