// The options by which `kha train`, `kha compare` and `kha data` name a run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "kha/core/run_config.h"

namespace kha::cli {

struct RunArguments {
  std::string file;  // a TOML file, a run folder, or the name of a model
  std::string recipe;
  std::vector<std::string> sets;
  bool print_config = false;
  bool dry_run = false;
};

// --set alone, and with the file.
void add_set_option(CLI::App& app, RunArguments& arguments);
void add_config_options(CLI::App& app, RunArguments& arguments);
// These, and what a command that trains has beside them.
void add_run_options(CLI::App& app, RunArguments& arguments);

// The file (or the defaults) with the sets on top. A run folder stands for its config.toml.
RunConfig read_run(const RunArguments& arguments);

}  // namespace kha::cli
