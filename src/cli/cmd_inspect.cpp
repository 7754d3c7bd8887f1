// kha inspect: what a model is, in words and figures, without loading its weights.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/cmd_inspect_run.h"
#include "cli/commands.h"
#include "cli/model_summary.h"
#include "kha/core/check_tensors.h"
#include "kha/core/error.h"
#include "kha/core/legality.h"
#include "kha/core/map_report.h"
#include "kha/core/model_folder.h"
#include "kha/core/model_warnings.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model;
  bool tensors = false;
  bool json = false;
  bool legality = false;
  bool markdown = false;
};

std::string shape_text(const TensorInfo& info) {
  std::string text;
  for (const int64_t size : info.shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

void print_tensors(const ModelFiles& files) {
  fmt::print("\n");
  for (const auto& name : files.names()) {
    const TensorInfo& info = files.at(name);
    fmt::print("{:<56} {:<5} {}\n", name, safetensors_name(info.dtype), shape_text(info));
  }
}

Json tensors_json(const ModelFiles& files) {
  Json list = Json::array();
  for (const auto& name : files.names()) {
    const TensorInfo& info = files.at(name);
    list.push_back(
        {{"name", name}, {"dtype", safetensors_name(info.dtype)}, {"shape", info.shape}});
  }
  return list;
}

int print_legality(const Options& options) {
  fmt::print("{}", options.json       ? legality_json()
                   : options.markdown ? legality_markdown()
                                      : legality_text());
  return 0;
}

int print_model(const Options& options) {
  if (options.model.empty()) {
    fail({.what = "what is to be inspected?",
          .expected = "a model folder or a run; or `run` and the folders of runs",
          .next = "kha inspect --help, or kha inspect --legality for where maps may stand"});
  }
  const auto folder = resolve_model_folder(options.model);
  const ModelConfig config = read_model_config(folder);
  const ModelFiles files = ModelFiles::open(folder);
  TensorCheck check = check_tensors(files, config);
  for (auto& warning : model_warnings(config)) check.warnings.push_back(std::move(warning));
  const ModelSummary summary = summarise(folder, config, files);
  const auto maps = map_report(files, config);
  for (const auto& warning : check.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (options.json) {
    Json json = summary_json(summary);
    json["warnings"] = check.warnings;
    json["maps"] = Json::parse(to_json(maps));
    if (options.tensors) json["tensors"] = tensors_json(files);
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  print_summary(summary);
  if (!maps.empty()) fmt::print("\n{}", to_table(maps));
  if (options.tensors) print_tensors(files);
  return 0;
}

int run(const Options& options) {
  return options.legality ? print_legality(options) : print_model(options);
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a model folder, or a run (its latest checkpoint)");
  app.add_flag("--tensors", options->tensors, "list every tensor: name, type, shape");
  CLI::Option* legality = app.add_flag(
      "--legality", options->legality,
      "no model: which maps may stand where in each attention system, and why not elsewhere");
  app.add_flag("--markdown", options->markdown, "the same table for docs/attention.md")
      ->needs(legality);
  add_json_option(app, options->json);
  const Command of_runs = inspect_run_command();
  CLI::App* sub = app.add_subcommand(of_runs.name, of_runs.summary);
  return [options, sub, run_of_runs = of_runs.add(*sub)] {
    return sub->parsed() ? run_of_runs() : run(*options);
  };
}

}  // namespace

Command inspect_command() {
  return {"inspect", "what a model is: sizes, counts, each map's figures", add};
}

}  // namespace kha::cli
