#include "train/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kha/core/attention_system.h"
#include "kha/core/checksum.h"
#include "kha/core/error.h"
#include "model/initialise.h"
#include "model/tensor_bytes.h"
#include "train/arms.h"

namespace kha {
namespace {

void check_settings(const Variant& variant, const std::string& where) {
  const auto& settings = variant.config.compare.settings;
  for (size_t i = 0; i < settings.size(); ++i) {
    if (std::find(settings.begin(), settings.begin() + i, settings[i]) == settings.begin() + i)
      continue;
    fail({.what = "the setting `" + settings[i] + "` stands twice",
          .where = where,
          .next = "name each once; several runs of one setting are compare.seeds"});
  }
}

void check_number(const std::vector<Variant>& variants, const std::string& where) {
  size_t arms = 0;
  for (const Variant& variant : variants) arms += variant.settings.size();
  if (arms >= 2) return;
  fail({.what = "a comparison needs at least two settings",
        .where = where,
        .expected = "compare.settings = [\"baseline\", \"kha-mlp\"], or several variants",
        .found = fmt::format("{}", arms)});
}

void check_comparable(const RunConfig& c, const std::vector<Variant>& variants) {
  const std::string where = "[compare]";
  check_number(variants, where);
  for (const Variant& variant : variants) check_settings(variant, where);
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

// The baseline's weights at step 0, which every arm of the variant has: initialisation is keyed by
// name.
std::string shared_start(const RunConfig& arm) {
  ModelConfig plain = arm.model;
  plain.knocks = {};
  ChecksumStream stream;
  const Parameters start = initialise(plain, KnockStart::identity, arm.run.seed);
  for (const auto& [name, tensor] : start.entries()) {
    stream.update(std::as_bytes(std::span(name)));
    stream.update(bytes_of(tensor));
  }
  return to_hex(stream.digest());
}

const Arm& find_arm(const Comparison& c, const std::string& variant, const std::string& setting,
                    int64_t seed) {
  for (const Arm& arm : c.arms) {
    if (arm.variant == variant && arm.setting == setting && arm.seed == seed) return arm;
  }
  throw std::logic_error("an arm that was trained is there");
}

// From the reference of the same variant and seed.
ArmDifference difference_of(const Comparison& c, const Variant& variant,
                            const std::string& setting) {
  const int64_t first = variant.config.run.seed, seeds = variant.config.compare.seeds;
  const auto validation = [&](const std::string& of, int64_t seed) -> const Evaluation& {
    return *find_arm(c, variant.name, of, seed).summary.validation;
  };
  if (seeds == 1) {
    return {variant.name, setting,
            interval_over_documents(validation(setting, first).documents,
                                    validation(c.reference, first).documents),
            "documents"};
  }
  std::vector<double> differences;
  for (int64_t seed = first; seed < first + seeds; ++seed)
    differences.push_back(validation(setting, seed).loss() - validation(c.reference, seed).loss());
  return {variant.name, setting, interval_over_seeds(differences), "seeds"};
}

VariantModel describe(const Variant& variant, const Tokenizer& tokenizer, Progress& progress) {
  const RunConfig arm =
      arm_config(variant, tokenizer, variant.settings.front(), variant.config.run.seed);
  ModelConfig plain = arm.model;
  plain.knocks = {};
  const VariantModel described{variant.name, plain, shared_start(arm), variant.left_out};
  progress.line(fmt::format("weights at step 0 that all arms{} share: {}",
                            variant.name.empty() ? "" : " of " + variant.name,
                            described.shared_start));
  return described;
}

}  // namespace

std::vector<std::string> describe_variants(const RunConfig& config) {
  std::vector<std::string> lines;
  if (config.compare.variants.empty()) return lines;
  for (const Variant& variant : variants_of(config)) {
    const ModelConfig& model = variant.config.model;
    lines.push_back(fmt::format("variant {}: attention {}, cache {} elements a token and layer; {}",
                                variant.name, model.attention,
                                attention_declaration(model.attention, "").cache_elements(model),
                                fmt::join(variant.settings, ", ")));
    for (const LeftOut& left : variant.left_out) {
      lines.push_back(fmt::format("  {} is left out: {}", left.setting, left.reason));
    }
  }
  return lines;
}

Comparison compare(const RunConfig& given) {
  check_comparable(given, variants_of(given));
  RunConfig config = given;
  const RunFolder folder(config.run_folder());
  Progress progress("");
  const auto corpus = open_corpus(config, progress);
  folder.write_config(config);
  for (const auto& line : describe_variants(config)) progress.line(line);
  const std::vector<Variant> variants = variants_of(config);
  write_planned_arms(folder.path(), variants);
  Comparison result{.folder = folder.path(),
                    .reference = config.compare.settings[0],
                    .variants = {},
                    .arms = {},
                    .differences = {}};
  for (const Variant& variant : variants)
    result.variants.push_back(describe(variant, *corpus->tokenizer, progress));
  if (!train_arms(variants, corpus, progress, result.arms))
    return {
        .folder = folder.path(), .reference = {}, .variants = {}, .arms = {}, .differences = {}};
  for (const Variant& variant : variants) {
    for (size_t i = 1; i < variant.settings.size(); ++i)
      result.differences.push_back(difference_of(result, variant, variant.settings[i]));
  }
  return result;
}

}  // namespace kha
