#include "core/exchange/exported_folder.h"

#include "core/exchange/read_back.h"
#include "core/surgery/side_files.h"

namespace kha {

void write_exported_folder(const std::filesystem::path& in, const ModelFiles& files,
                           const std::vector<PlannedTensor>& tensors, const ExportOptions& options,
                           const std::string& config_text, const std::filesystem::path& folder,
                           ExportReport& report) {
  const WrittenWeights written = write_sharded_weights(files, tensors, options.shard_size, folder);
  report.files = written.files.size();
  report.bytes = written.bytes;
  report.left_out = copy_side_files(in, folder, /*model_code=*/false).left_out;
  write_settings(folder, report.model, config_text);
  read_back(folder, tensors, written);
  report.checks.push_back("read back: names, shapes, types and checksums are those written");
}

}  // namespace kha
