#include "core/surgery/changed_model.h"
#include "core/surgery/new_folder.h"
#include "core/surgery/rotary_layout.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/convert.h"

namespace kha {

namespace fs = std::filesystem;

ConvertReport convert_rotary_layout(const fs::path& in, const fs::path& out,
                                    const std::string& layout) {
  require_free(out);
  const ModelConfig before = read_model_config(in);
  const RotaryPlan plan = plan_rotary_layout(before, layout, (in / "config.json").string());
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  const auto warnings = check_tensors(files, before).warnings;
  const SideFiles side =
      write_changed_model(in, files, plan.after, {.edits = plan.edits, .reshaped = {}}, out);
  return {.before = before,
          .after = plan.after,
          .exact = true,
          .warnings = warnings,
          .copied = side.copied,
          .left_out = side.left_out};
}

}  // namespace kha
