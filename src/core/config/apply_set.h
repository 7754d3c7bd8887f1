// "key=value" on top of a run's configuration.
#pragma once

#include <string>
#include <vector>

#include "kha/core/run_config.h"

namespace kha {

// The value is TOML; a word that is not is taken as text. `where` names the place in messages:
// "--set train.steps=5".
void apply_set(RunConfig& config, const std::string& set, const std::string& where);

// One after the other, but names of models and recipes first: every key beside them wins. `place`
// stands before each in messages: "--set ".
void apply_sets(RunConfig& config, const std::vector<std::string>& sets, const std::string& place);

}  // namespace kha
