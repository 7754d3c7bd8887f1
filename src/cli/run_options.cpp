#include "cli/run_options.h"

#include <fmt/format.h>

#include <filesystem>

#include "kha/core/error.h"
#include "kha/core/nearest_name.h"
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

namespace {

// A name may be that of a model and of a file or folder here, and then nobody knows which is meant.
void refuse_ambiguous(const std::string& name) {
  if (!find_model_preset(name) || !std::filesystem::exists(name)) return;
  fail({.what = "`" + name + "` is a named model and " +
                (std::filesystem::is_directory(name) ? "a folder" : "a file") + " here",
        .where = std::filesystem::absolute(name).string(),
        .next = "./" + name + " means what lies here, --set model.preset=" + name + " the model"});
}

// What is neither a file nor a model: most likely one of them, mistyped.
void refuse_unknown(const std::string& name) {
  if (name.empty() || std::filesystem::exists(name) || find_model_preset(name)) return;
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) names.push_back(preset.name);
  const bool path = name.find_first_of("/.") != std::string::npos;
  // "moe-6.6b" has a point too.
  const auto nearest = nearest_name(name, names);
  if (path && (!nearest || name.ends_with(".toml") || name.find('/') != std::string::npos)) return;
  fail({.what = "there is neither a file nor a model `" + name + "`" + did_you_mean(name, names),
        .where = "the configuration",
        .expected = "a TOML file, a run folder, or a model's name",
        .found = name,
        .next = "see configs/ for examples, kha plan --list for models by name"});
}

}  // namespace

RunConfig read_run(const RunArguments& arguments) {
  std::vector<std::string> sets;
  refuse_ambiguous(arguments.file);
  refuse_unknown(arguments.file);
  const ModelPreset* preset = find_model_preset(arguments.file);
  if (preset) sets.push_back("model.preset=" + preset->name);
  if (!arguments.recipe.empty()) {
    recipe_preset(arguments.recipe);  // a wrong name is said of --recipe
    sets.push_back("train.recipe=" + arguments.recipe);
  }
  sets.insert(sets.end(), arguments.sets.begin(), arguments.sets.end());
  if (preset) return parse_run_config("", "the model " + preset->name, sets);
  std::filesystem::path file = arguments.file;
  if (file.empty()) return parse_run_config("", "the defaults", sets);
  if (std::filesystem::is_directory(file)) file /= "config.toml";
  return read_run_config(file, sets);
}

void print_chosen(const RunConfig& config, const char* mark) {
  for (const auto& line : config.chosen) fmt::print("{}{}\n", mark, line);
}

void print_config(const RunConfig& config) {
  print_chosen(config, "# ");
  fmt::print("{}", to_toml(config));
}

}  // namespace kha::cli
