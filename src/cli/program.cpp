#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "kha/core/cut_file.h"
#include "kha/core/nearest_name.h"
#include "kha/core/version.h"

namespace kha::cli {
namespace {

int print_text(const std::string& text, ExitCode code) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", text);
  return static_cast<int>(code);
}

// The command that the words begin with, its parts too: "inspect run".
std::string command_path(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const auto own =
        at->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == argv[i]; });
    if (own.empty()) break;
    at = own.front();
    path += (path.empty() ? "" : " ") + at->get_name();
  }
  return path;
}

// CLI11 names what it did not understand; the nearest command is what a person needs.
std::string usage_error(const CLI::ParseError& error, const CLI::App& app,
                        const std::vector<Command>& commands, int argc, char** argv) {
  std::string text = error.what();
  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const auto& command : commands) names.push_back(command.name);
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      return fmt::format("there is no command `{}`{}\n  next:     {} --help lists them", argv[1],
                         did_you_mean(argv[1], names), argv[0]);
    }
    return fmt::format("{}\n  next:     kha {} --help", text, command_path(app, argc, argv));
  }
  return text + "\n  next:     kha --help";
}

}  // namespace

int print_error(const Error& error) { return print_text(error.what(), error.code()); }

int run_program(const std::string& name, const std::string& description,
                const std::vector<Command>& commands, int argc, char** argv) {
  CLI::App app(description, name);
  app.set_version_flag("--version", name + " " + version());
  app.require_subcommand(1);
  report_cut_files();
  std::vector<std::pair<CLI::App*, std::function<int()>>> parsed;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    parsed.emplace_back(sub, command.add(*sub));
  }
  try {
    app.parse(argc, argv);
    for (const auto& [sub, run] : parsed) {
      if (sub->parsed()) return run();
    }
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return print_text(usage_error(error, app, commands, argc, argv), ExitCode::bad_input);
  } catch (const Error& error) {
    return print_error(error);
  } catch (const std::exception& error) {
    return print_text(error.what(), ExitCode::bad_input);
  }
}

void add_json_option(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print the figures as JSON");
}

}  // namespace kha::cli
