#include "train/arms.h"

#include <fmt/format.h>

#include "kha/core/counts.h"
#include "train/process_figures.h"

namespace kha {
namespace {

Arm make_arm(const std::string& variant, const RunConfig& arm, const RunSummary& summary) {
  const ParameterCount count = count_parameters(arm.model);
  const FlopCount flops = flops_per_token(arm.model, arm.train.context);
  return {.variant = variant,
          .setting = arm.knock.setting,
          .seed = arm.run.seed,
          .run = arm.run_folder(),
          .parameters = count.total,
          .knock_parameters = count.knock,
          .flops = flops.forward,
          .knock_flops = flops.knock,
          .summary = summary};
}

// The arms of a comparison, one after the other.
class Arms {
 public:
  Arms(const std::vector<Variant>& variants, std::shared_ptr<const RunCorpus> corpus,
       Progress& progress)
      : variants_(variants), corpus_(std::move(corpus)), progress_(progress) {
    for (const Variant& variant : variants)
      all_ += variant.settings.size() * static_cast<size_t>(variant.config.compare.seeds);
  }

  // Whether all were trained; false after a signal.
  bool train_all(std::vector<Arm>& arms) {
    const RunConfig& first = variants_.front().config;
    for (int64_t i = 0; i < first.compare.seeds; ++i) {
      for (const Variant& variant : variants_) {
        for (const auto& setting : variant.settings) {
          if (!train_one(variant, setting, first.run.seed + i, arms)) return false;
        }
      }
    }
    return true;
  }

 private:
  bool train_one(const Variant& variant, const std::string& setting, int64_t seed,
                 std::vector<Arm>& arms) {
    const std::string of = variant.name.empty() ? "" : variant.name + " ";
    const size_t place = arms.size() + 1;
    progress_.line(fmt::format("\narm {} of {}: {}{}, seed {}", place, all_, of, setting, seed));
    reset_peak_resident();
    const RunConfig arm = arm_config(variant, *corpus_->tokenizer, setting, seed);
    const std::string label = fmt::format("[{}/{} {}{}] ", place, all_, of, setting);
    const TrainReport report = train({arm, {}, label}, corpus_);
    if (report.finished) arms.push_back(make_arm(variant.name, arm, report.summary));
    return report.finished;
  }

  const std::vector<Variant>& variants_;
  std::shared_ptr<const RunCorpus> corpus_;
  Progress& progress_;
  size_t all_ = 0;
};

}  // namespace

RunConfig arm_config(const Variant& variant, const Tokenizer& tokenizer, const std::string& setting,
                     int64_t seed) {
  RunConfig arm = variant.config;
  if (arm.data.cache.empty())
    arm.data.cache = (std::filesystem::path(arm.run.folder) / ".data").string();
  std::filesystem::path arms = arm.run_folder() / "arms";
  if (!variant.name.empty()) arms /= variant.name;
  arm.run = {.name = fmt::format("{}-s{}", setting, seed), .folder = arms.string(), .seed = seed};
  arm.knock.setting = setting;
  arm.given.insert("knock.setting");
  arm.model.knocks = resolve_knocks(arm.knock, "[compare]");
  arm.compare.variants = {};  // the arm is one of them
  take_tokenizer(arm, tokenizer);
  return arm;
}

bool train_arms(const std::vector<Variant>& variants, std::shared_ptr<const RunCorpus> corpus,
                Progress& progress, std::vector<Arm>& arms) {
  return Arms(variants, std::move(corpus), progress).train_all(arms);
}

}  // namespace kha
