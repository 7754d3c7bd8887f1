#include "cli/run_options.h"

#include <filesystem>

#include "kha/core/presets.h"

namespace kha::cli {

void add_set_option(CLI::App& app, RunArguments& arguments) {
  app.add_option("--set", arguments.sets, "key=value on top of the file, e.g. train.steps=200")
      ->allow_extra_args(false)  // one value a --set: the file may stand behind it
      ->type_name("KEY=VALUE");
}

void add_config_options(CLI::App& app, RunArguments& arguments) {
  app.add_option("config", arguments.file,
                 "TOML file of the run, a run folder, or a model's name (kha plan --list)");
  app.add_option("--recipe", arguments.recipe,
                 "the paper's training settings on top of the file, below --set: exploratory, "
                 "ablation or main");
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
  std::vector<std::string> sets;
  const auto put = [&](const std::vector<std::string>& more) {
    sets.insert(sets.end(), more.begin(), more.end());
  };
  std::filesystem::path file = arguments.file;
  const ModelPreset* preset =
      std::filesystem::exists(file) ? nullptr : find_model_preset(arguments.file);
  if (preset) put(preset->sets);
  if (!arguments.recipe.empty()) put(recipe_preset(arguments.recipe).sets);
  put(arguments.sets);
  if (preset) return parse_run_config("", "the model " + preset->name, sets);
  if (file.empty()) return parse_run_config("", "the defaults", sets);
  if (std::filesystem::is_directory(file)) file /= "config.toml";
  return read_run_config(file, sets);
}

}  // namespace kha::cli
