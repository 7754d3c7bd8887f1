// Models and recipes by name, as `--set` words: `model.preset`, `train.recipe`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kha/core/run_config.h"

namespace kha {

struct ModelPreset {
  std::string name;
  std::string meaning;
  std::vector<std::string> sets;  // "model.hidden_size=1024"
  // Of the paper's models. A run takes its tokenizer's, whatever this says.
  int64_t vocab_size = 0;
};

// The paper's models (its tables 3 and 5, and the main one), and of each a small relative for two
// cores, whose proportions are the same: feed-forward and heads against the width, query against KV
// heads, experts against those of a token.
const std::vector<ModelPreset>& model_presets();
// Null where there is none of that name.
const ModelPreset* find_model_preset(const std::string& name);
// Fails with the nearest name; `where` names the place in the message.
const ModelPreset& model_preset(const std::string& name, const std::string& where);

struct RecipePreset {
  std::string name;
  std::string meaning;
  std::vector<std::string> sets;
  double tokens = 0;
  int64_t context = 0;
  double lr = 0;
  // The paper trains several models by it; this one's arithmetic stands for them where the recipe
  // is scaled (scaled_recipe.h).
  std::string model = {};
};

// The paper's training recipes, batches of 512 sequences.
const std::vector<RecipePreset>& recipe_presets();
// Fails with the nearest name for a recipe that does not exist.
const RecipePreset& recipe_preset(const std::string& name, const std::string& where = "--recipe");

}  // namespace kha
