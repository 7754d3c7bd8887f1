#include "kha/core/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/surgery/changed_model.h"
#include "core/surgery/fold_plan.h"
#include "core/surgery/new_folder.h"
#include "kha/core/check_tensors.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/error.h"
#include "kha/core/model_files.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

void check_options(const FoldOptions& options) {
  if (options.condition_limit >= 1) return;  // also false for NaN
  fail({.what = "the limit of the condition number is too low",
        .expected = "a number of at least 1, the condition number of the identity",
        .found = fmt::format("{}", options.condition_limit)});
}

[[noreturn]] void fail_nothing_folds(const fs::path& in, const FoldPlan& plan) {
  std::set<std::string> reasons;
  for (const FoldedMap& map : plan.maps) {
    reasons.insert(
        fmt::format("{} on {}: {}", to_string(map.before), to_string(map.slot), map.reason));
  }
  std::string text;
  for (const auto& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  fail({.what = "nothing to fold: none of the model's maps can leave it",
        .where = in.string(),
        .found = text,
        .next = "nothing was written; use the model as it is"});
}

FoldPlan make_plan(const fs::path& in, const ModelFiles& files, const ModelConfig& config,
                   const FoldOptions& options) {
  FoldPlan plan =
      plan_fold(config, options, [&](const std::string& name) { return read_map(files, name); });
  const bool any = std::any_of(plan.maps.begin(), plan.maps.end(), [](const FoldedMap& map) {
    return map.outcome != FoldOutcome::kept;
  });
  if (!any) fail_nothing_folds(in, plan);
  return plan;
}

}  // namespace

FoldReport fold_model(const fs::path& in, const fs::path& out, const FoldOptions& options) {
  check_options(options);
  require_free(out);
  const ModelConfig config = read_model_config(in);
  if (!config.knocks.any(config.num_hidden_layers)) {
    fail({.what = "nothing to fold: " + in.string() + " has no maps",
          .where = (in / "config.json").string(),
          .found = config.plain() ? "model_type " + config.base_type() + ", a plain model"
                                  : "attention " + config.attention + " without maps",
          .cause = "it was folded already, or trained without maps",
          .next = "nothing was written; use the model as it is"});
  }
  if (fs::exists(in / "MANIFEST.json")) verify(in);
  const ModelFiles files = ModelFiles::open(in);
  FoldReport report{.maps = {},
                    .before = config,
                    .after = {},
                    .condition_limit = options.condition_limit,
                    .warnings = check_tensors(files, config).warnings,
                    .copied = {},
                    .left_out = {}};
  const FoldPlan plan = make_plan(in, files, config, options);
  const SideFiles side =
      write_changed_model(in, files, plan.after, {.edits = plan.edits, .reshaped = {}}, out);
  report.copied = side.copied;
  report.left_out = side.left_out;
  report.maps = plan.maps;
  report.after = plan.after;
  return report;
}

}  // namespace kha
