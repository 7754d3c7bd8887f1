// Names that stand for many keys of a configuration: a model's sizes, a recipe, a scaled recipe.
#pragma once

#include <set>
#include <string>

#include "kha/core/run_config.h"

namespace kha {

// Whether a key is such a name, to be applied before the keys beside it.
bool is_name_of_settings(const std::string& key);

// Applies what the name under `key` stands for. Errors: a name that does not exist, with the
// nearest one.
void apply_named_settings(RunConfig& config, const std::string& key, const std::string& name,
                          const std::string& where);

// Batch, learning rate and steps for train.tokens, where that is given: by the rule of
// train.scale_from, or the steps alone. What is in `kept` stays. Says in config.chosen what came
// out. The model must be valid.
void apply_budget(RunConfig& config, const std::set<std::string>& kept, const std::string& where);

}  // namespace kha
