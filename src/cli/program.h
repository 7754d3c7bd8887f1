// What both programs share: subcommands, the printing of errors, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kha/core/error.h"

namespace kha::cli {

// A subcommand: `add` declares its options on `app` and returns what runs once they are parsed.
struct Command {
  std::string name;
  std::string summary;
  std::function<std::function<int()>(CLI::App& app)> add;
};

// Parses, runs the one command, prints errors as sentences; returns the exit code.
int run_program(const std::string& name, const std::string& description,
                const std::vector<Command>& commands, int argc, char** argv);

// Prints an error as every command does; returns its exit code.
int print_error(const Error& error);

// The options of several commands, worded once.
void add_json_option(CLI::App& app, bool& json);

}  // namespace kha::cli
