// A recipe's batch and learning rate for another budget of arithmetic.
#pragma once

#include <cstdint>

#include "kha/core/presets.h"

namespace kha {

// DeepSeek LLM (arXiv 2401.02954, section 3.1, eq. 1) fits the best learning rate and batch to the
// arithmetic of a run, C = (training FLOPs of a token outside the vocabulary) x tokens, on runs of
// 1e17 to 2e19 FLOP: lr = 0.3118 C^-0.1250, tokens a step = 0.2920 C^0.3271. The exponents are
// taken from there; the factors are such that at the recipe's own budget the recipe's
// own values come out. (By the published factors: exploratory 7.9e-4 and 1.8M tokens, where the
// recipe has 7.5e-4 and 2.1M; main 5.7e-4 and 4.2M, where it has 4.78e-4 and 4.2M.)
struct ScaledRecipe {
  double flops = 0;         // C of the run
  double recipe_flops = 0;  // and of the recipe, trained on the model that stands for it
  double lr = 0;
  double tokens_a_step = 0;
};
ScaledRecipe scale_recipe(const RecipePreset& recipe, const ModelConfig& model, int64_t context,
                          double tokens);

// The learning rate where the user has set the batch: with its square root, from the rule's own
// (for Adam: arXiv 2205.10287).
double rate_of_batch(const ScaledRecipe& scaled, double tokens_a_step);

// Training FLOPs of one token without embedding and head.
double body_training_flops(const ModelConfig& model, int64_t context);

}  // namespace kha
