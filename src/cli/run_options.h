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
// Refuses a name that is a model's and also a file's or folder's, and answers a mistyped one.
RunConfig read_run(const RunArguments& arguments);

// What names of models and recipes and a scaling rule chose, a line each behind `mark`.
void print_chosen(const RunConfig& config, const char* mark);
// The resolved configuration, with those lines as comments in front.
void print_config(const RunConfig& config);

}  // namespace kha::cli
