#include "cli/run_options.h"

#include <filesystem>

namespace kha::cli {

void add_set_option(CLI::App& app, RunArguments& arguments) {
  app.add_option("--set", arguments.sets, "key=value on top of the file, e.g. train.steps=200")
      ->allow_extra_args(false)  // one value a --set: the file may stand behind it
      ->type_name("KEY=VALUE");
}

void add_config_options(CLI::App& app, RunArguments& arguments) {
  app.add_option("config", arguments.file, "TOML file of the run, or a run folder (see configs/)");
  add_set_option(app, arguments);
}

void add_run_options(CLI::App& app, RunArguments& arguments) {
  add_config_options(app, arguments);
  app.add_flag("--print-config", arguments.print_config,
               "print the whole resolved configuration and stop");
  app.add_flag("--dry-run", arguments.dry_run,
               "read the text, build the model, say what would happen");
}

RunConfig read_run(const RunArguments& arguments) {
  if (arguments.file.empty()) return parse_run_config("", "the defaults", arguments.sets);
  std::filesystem::path file = arguments.file;
  if (std::filesystem::is_directory(file)) file /= "config.toml";
  return read_run_config(file, arguments.sets);
}

}  // namespace kha::cli
