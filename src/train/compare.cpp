#include "train/compare.h"

#include <fmt/format.h>

#include "kha/core/checksum.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "model/initialise.h"
#include "model/tensor_bytes.h"
#include "train/process_figures.h"

namespace kha {
namespace {

void check_comparable(const RunConfig& c) {
  const std::string where = "[compare]";
  if (c.compare.settings.size() < 2) {
    fail({.what = "a comparison needs at least two settings",
          .where = where,
          .expected = "compare.settings = [\"baseline\", \"kha-mlp\"]",
          .found = fmt::format("{}", c.compare.settings.size())});
  }
  for (size_t i = 0; i < c.compare.settings.size(); ++i) {
    named_setting(c.compare.settings[i], where);
    for (size_t j = 0; j < i; ++j) {
      if (c.compare.settings[i] == c.compare.settings[j]) {
        fail({.what = "the setting `" + c.compare.settings[i] + "` stands twice",
              .where = where,
              .next = "name each once; several runs of one setting are compare.seeds"});
      }
    }
  }
  if (!c.knock.q.empty() || !c.knock.k.empty() || !c.knock.v.empty() || !c.knock.layers.empty()) {
    fail({.what = "knock.q, knock.k, knock.v and knock.layers have no meaning in a comparison",
          .where = where,
          .cause = "each arm takes its maps from its setting",
          .next = "remove them, or train such a model with `kha train`"});
  }
  if (c.data.validation_share == 0) {
    fail({.what = "a comparison needs a held-out split",
          .where = "data.validation_share",
          .expected = "more than 0",
          .found = "0"});
  }
}

RunConfig arm_config(const RunConfig& config, const Tokenizer& tokenizer,
                     const std::string& setting, int64_t seed) {
  RunConfig arm = config;
  if (arm.data.cache.empty())
    arm.data.cache = (std::filesystem::path(config.run.folder) / ".data").string();
  arm.run = {.name = fmt::format("{}-s{}", setting, seed),
             .folder = (config.run_folder() / "arms").string(),
             .seed = seed};
  arm.knock.setting = setting;
  arm.given.insert("knock.setting");
  arm.model.knocks = resolve_knocks(arm.knock, "[compare]");
  take_tokenizer(arm, tokenizer);
  return arm;
}

// The baseline's weights at step 0, which are every arm's: initialisation is keyed by name.
std::string shared_start(const RunConfig& config) {
  RunConfig plain = config;
  plain.model.knocks = {};
  ChecksumStream stream;
  const Parameters start = initialise(plain.model, KnockStart::identity, config.run.seed);
  for (const auto& [name, tensor] : start.entries()) {
    stream.update(std::as_bytes(std::span(name)));
    stream.update(bytes_of(tensor));
  }
  return to_hex(stream.digest());
}

Arm make_arm(const RunConfig& arm, const RunSummary& summary) {
  const ParameterCount count = count_parameters(arm.model);
  const FlopCount flops = flops_per_token(arm.model, arm.train.context);
  return {.setting = arm.knock.setting,
          .seed = arm.run.seed,
          .run = arm.run_folder(),
          .parameters = count.total,
          .knock_parameters = count.knock,
          .flops = flops.forward,
          .knock_flops = flops.knock,
          .summary = summary};
}

const Arm& find_arm(const Comparison& c, const std::string& setting, int64_t seed) {
  for (const Arm& arm : c.arms) {
    if (arm.setting == setting && arm.seed == seed) return arm;
  }
  throw std::logic_error("an arm that was trained is there");
}

ArmDifference difference_of(const Comparison& c, const std::string& setting,
                            const RunConfig& config) {
  const int64_t first = config.run.seed, seeds = config.compare.seeds;
  if (seeds == 1) {
    return {setting,
            interval_over_documents(find_arm(c, setting, first).summary.validation->documents,
                                    find_arm(c, c.reference, first).summary.validation->documents),
            "documents"};
  }
  std::vector<double> differences;
  for (int64_t seed = first; seed < first + seeds; ++seed) {
    differences.push_back(find_arm(c, setting, seed).summary.validation->loss() -
                          find_arm(c, c.reference, seed).summary.validation->loss());
  }
  return {setting, interval_over_seeds(differences), "seeds"};
}

}  // namespace

Comparison compare(const RunConfig& given) {
  check_comparable(given);
  RunConfig config = given;
  const RunFolder folder(config.run_folder());
  Progress progress("");
  const auto corpus = open_corpus(config, progress);
  folder.write_config(config);
  Comparison result{.folder = folder.path(),
                    .reference = config.compare.settings[0],
                    .shared_start = shared_start(config),
                    .arms = {},
                    .differences = {}};
  progress.line(fmt::format("weights at step 0 that all arms share: {}", result.shared_start));
  const size_t all = config.compare.settings.size() * static_cast<size_t>(config.compare.seeds);
  for (int64_t seed = config.run.seed; seed < config.run.seed + config.compare.seeds; ++seed) {
    for (const auto& setting : config.compare.settings) {
      progress.line(
          fmt::format("\narm {} of {}: {}, seed {}", result.arms.size() + 1, all, setting, seed));
      reset_peak_resident();
      const RunConfig arm = arm_config(config, *corpus->tokenizer, setting, seed);
      const std::string label = fmt::format("[{}/{} {}] ", result.arms.size() + 1, all, setting);
      const TrainReport report = train({arm, {}, label}, corpus);
      if (!report.finished)
        return {.folder = folder.path(),
                .reference = {},
                .shared_start = {},
                .arms = {},
                .differences = {}};
      result.arms.push_back(make_arm(arm, report.summary));
    }
  }
  for (size_t i = 1; i < config.compare.settings.size(); ++i) {
    result.differences.push_back(difference_of(result, config.compare.settings[i], config));
  }
  return result;
}

}  // namespace kha
