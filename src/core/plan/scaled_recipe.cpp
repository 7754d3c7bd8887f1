#include "kha/core/scaled_recipe.h"

#include <cmath>

#include "kha/core/counts.h"

namespace kha {
namespace {

constexpr double rate_exponent = -0.1250, batch_exponent = 0.3271;
constexpr double sequences = 512;  // a step of every recipe

ModelConfig model_of(const RecipePreset& recipe) {
  std::vector<std::string> sets = model_preset(recipe.model, recipe.name).sets;
  sets.push_back("knock.setting=baseline");
  return parse_run_config("", recipe.model, sets).model;
}

}  // namespace

double body_training_flops(const ModelConfig& model, int64_t context) {
  const double vocabulary = 2.0 * static_cast<double>(model.vocab_size * model.hidden_size);
  return 3 * (flops_per_token(model, context).forward - vocabulary);
}

ScaledRecipe scale_recipe(const RecipePreset& recipe, const ModelConfig& model, int64_t context,
                          double tokens) {
  ScaledRecipe scaled{
      .flops = tokens * body_training_flops(model, context),
      .recipe_flops = recipe.tokens * body_training_flops(model_of(recipe), recipe.context)};
  const double ratio = scaled.flops / scaled.recipe_flops;
  scaled.lr = recipe.lr * std::pow(ratio, rate_exponent);
  scaled.tokens_a_step =
      sequences * static_cast<double>(recipe.context) * std::pow(ratio, batch_exponent);
  return scaled;
}

double rate_of_batch(const ScaledRecipe& scaled, double tokens_a_step) {
  return scaled.lr * std::sqrt(tokens_a_step / scaled.tokens_a_step);
}

}  // namespace kha
