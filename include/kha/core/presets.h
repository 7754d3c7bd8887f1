// Models and recipes by name, as `--set` words: `kha plan NAME`, `kha train NAME --recipe NAME`.
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

struct RecipePreset {
  std::string name;
  std::string meaning;
  std::vector<std::string> sets;
  double tokens = 0;
};

// The paper's training recipes, batches of 512 sequences.
const std::vector<RecipePreset>& recipe_presets();
// Fails with the nearest name for a recipe that does not exist.
const RecipePreset& recipe_preset(const std::string& name);

}  // namespace kha
