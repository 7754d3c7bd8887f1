// Which of the two forms a model is exported in, and the form with a model file.
#include <algorithm>

#include "core/exchange/exported_folder.h"
#include "core/exchange/linear_maps.h"
#include "core/exchange/model_file.h"
#include "core/exchange/sharded_weights.h"
#include "core/surgery/new_folder.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/error.h"
#include "kha/core/export.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// Empty where one does, once linear maps are folded.
std::string why_no_plain_architecture(const ModelConfig& config) {
  try {
    plain_architecture(without_linear_maps(config), "");
  } catch (const Error& error) {
    return error.diagnosis().cause;
  }
  return "";
}

// What is not trained (selection biases) keeps its type: rounded, it would choose other experts.
std::vector<PlannedTensor> planned(const ModelFiles& files, const ModelConfig& config,
                                   std::optional<DType> dtype) {
  std::vector<PlannedTensor> tensors;
  for (const auto& spec : parameter_table(config)) {
    const DType stored = files.at(spec.name).dtype;
    tensors.push_back(
        {.spec = {spec.name, spec.trained ? dtype.value_or(stored) : stored, spec.shape}});
  }
  return tensors;
}

ExportReport export_with_model_file(const fs::path& in, const fs::path& out,
                                    const ExportOptions& options, ModelConfig config) {
  require_free(out);
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  ExportReport report;
  report.architecture = {"kha", "KhaForCausalLM"};
  report.warnings = check_tensors(files, config).warnings;
  const auto tensors = planned(files, config, options.dtype);
  config.dtype = name_in_config(tensors.front().spec.dtype);
  report.model = std::move(config);
  report.rounded = std::any_of(tensors.begin(), tensors.end(), [&](const PlannedTensor& tensor) {
    return tensor.spec.dtype != files.at(tensor.spec.name).dtype;
  });
  NewFolder folder(out);
  write_model_file(folder.folder());
  write_exported_folder(in, files, tensors, options, config_json_with_model_file(report.model),
                        folder.folder(), report);
  folder.commit();
  return report;
}

}  // namespace

ExportReport export_model(const fs::path& in, const fs::path& out, const ExportOptions& options) {
  ModelConfig config = read_model_config(in);
  const bool kept = options.keep_maps && config.knocks.any(config.num_hidden_layers);
  const std::string reason = kept ? "its maps were to be kept" : why_no_plain_architecture(config);
  if (reason.empty()) return export_to_hugging_face(in, out, options);
  ExportReport report = export_with_model_file(in, out, options, std::move(config));
  report.why_model_file = reason;
  return report;
}

}  // namespace kha
