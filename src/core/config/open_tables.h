// The tables of a run's configuration whose keys are not known beforehand.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "kha/core/run_config.h"

namespace kha {

// Takes [knock.layers.N] q, k or v, and [compare.variants] NAME = [...]. Returns whether the key is
// of one of them. Errors: a name or a value that does not fit there.
bool assign_in_open_table(RunConfig& config, const std::string& key, const toml::node& node,
                          const std::string& where);

// These tables, for sections without keys.
inline const std::vector<std::string>& open_tables() {
  static const std::vector<std::string> names{"knock.layers", "compare.variants"};
  return names;
}

}  // namespace kha
