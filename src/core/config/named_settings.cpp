#include "core/config/named_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/config/apply_set.h"
#include "kha/core/error.h"
#include "kha/core/presets.h"
#include "kha/core/scaled_recipe.h"

namespace kha {
namespace {

void apply_model(RunConfig& config, const std::string& name, const std::string& where) {
  const ModelPreset& preset = model_preset(name, where);
  for (const auto& set : preset.sets) apply_set(config, set, where + ", " + name);
  config.chosen.push_back(
      fmt::format("model.preset {}: {}; keys given beside it win", name, preset.meaning));
}

// Its keys are nobody's own: a scaled recipe may change them.
void apply_recipe(RunConfig& config, const std::string& name, const std::string& where) {
  const RecipePreset& recipe = recipe_preset(name, where);
  const std::set<std::string> given = config.given;
  for (const auto& set : recipe.sets) apply_set(config, set, where + ", " + name);
  config.given = given;
  config.chosen.push_back(
      fmt::format("train.recipe {}: {}; keys given beside it win", name, recipe.meaning));
}

// What of the recipe does not hang on the budget. The length of a sequence stays the run's own.
void apply_scaled_recipe(RunConfig& config, const std::string& name, const std::string& where) {
  const int64_t context = config.train.context;
  const int64_t batch = config.train.batch, accumulate = config.train.accumulate;
  apply_recipe(config, name, where);
  config.chosen.pop_back();
  config.train.context = context;
  config.train.batch = batch;
  config.train.accumulate = accumulate;
  config.schedule.warmup_steps = -1;  // the same share of another number of steps
}

int64_t rounded(double value) { return std::max<int64_t>(1, std::llround(value)); }

void take_batch(RunConfig& config, bool keeps_batch, bool keeps_accumulate, double sequences) {
  TrainOptions& t = config.train;
  if (!keeps_batch) {
    t.batch = keeps_accumulate ? rounded(sequences / static_cast<double>(t.accumulate))
                               : std::min(t.batch, rounded(sequences));
  }
  if (!keeps_accumulate) t.accumulate = rounded(sequences / static_cast<double>(t.batch));
}

void scale(RunConfig& config, const std::set<std::string>& kept, const std::string& where) {
  TrainOptions& t = config.train;
  // A resolved configuration has what came out, and nothing is left to choose.
  const auto has = [&](const char* key) { return kept.contains(key); };
  if (has("train.batch") && has("train.accumulate") && has("train.steps") && has("optimizer.lr"))
    return;
  if (t.tokens <= 0 || !config.init.from.empty()) {
    const bool from = !config.init.from.empty();
    fail({.what = from ? "a recipe is scaled for a model that begins from scratch"
                       : "a recipe is scaled to a budget, which is not given",
          .where = where + ", train.scale_from",
          .expected = from ? "no init.from" : "train.tokens, of the whole run",
          .next = from ? "set optimizer.lr, train.batch and train.steps yourself"
                       : "add --set train.tokens=1e9"});
  }
  const RecipePreset& recipe = recipe_preset(t.scale_from, where + ", train.scale_from");
  const ScaledRecipe scaled = scale_recipe(recipe, config.model, t.context, t.tokens);
  const bool keeps_batch = kept.contains("train.batch"),
             keeps_accumulate = kept.contains("train.accumulate");
  take_batch(config, keeps_batch, keeps_accumulate,
             scaled.tokens_a_step / static_cast<double>(t.context));
  const auto a_step = static_cast<double>(config.tokens_per_step());
  const bool own_batch = keeps_batch && keeps_accumulate;
  const double rate = own_batch ? rate_of_batch(scaled, a_step) : scaled.lr;
  // Three digits: more would pretend a precision that the rule does not have.
  if (!kept.contains("optimizer.lr")) config.optimizer.lr = std::stod(fmt::format("{:.3g}", rate));
  if (!kept.contains("train.steps")) t.steps = rounded(t.tokens / a_step);
  config.chosen.push_back(fmt::format(
      "train.scale_from {}: {:.3g} FLOP outside the vocabulary against its {:.3g}; the rule gives "
      "{:.3g} tokens a step at lr {:.3g}; the run takes {} x {} x {} = {:.0f} tokens a step, lr "
      "{}, "
      "{} steps{}",
      recipe.name, scaled.flops, scaled.recipe_flops, scaled.tokens_a_step, scaled.lr, t.batch,
      t.accumulate, t.context, a_step, config.optimizer.lr, t.steps,
      own_batch && !kept.contains("optimizer.lr") ? " (rate by the root of the batch)" : ""));
}

}  // namespace

bool is_name_of_settings(const std::string& key) {
  return key == "model.preset" || key == "train.recipe" || key == "train.scale_from";
}

void apply_named_settings(RunConfig& config, const std::string& key, const std::string& name,
                          const std::string& where) {
  if (name.empty()) return;
  if (key == "model.preset") return apply_model(config, name, where);
  if (key == "train.recipe") return apply_recipe(config, name, where);
  apply_scaled_recipe(config, name, where);
}

void apply_budget(RunConfig& config, const std::set<std::string>& kept, const std::string& where) {
  TrainOptions& t = config.train;
  if (!t.scale_from.empty()) return scale(config, kept, where);
  if (t.tokens <= 0 || kept.contains("train.steps")) return;
  t.steps = rounded(t.tokens / static_cast<double>(config.tokens_per_step()));
}

}  // namespace kha
