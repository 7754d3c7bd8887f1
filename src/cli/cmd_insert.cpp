// kha insert: maps put into a model that has none, proved to change no logit.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/left_out.h"
#include "cli/proof.h"
#include "kha/core/insert.h"
#include "kha/core/model_folder.h"

namespace kha::cli {
namespace {

struct Options {
  std::string model, out, setting;
  std::vector<std::int64_t> layers;
  std::vector<std::string> text;  // of the comparison
  bool no_verify = false, json = false;
};

// At the identity a product adds zeros and a gate is one: not a bit may differ.
ProofRequest proof_of(const Options& options) {
  return {.before = options.model,
          .after = options.out,
          .text = options.text,
          .limit = "0",
          .asked = !options.no_verify,
          .output_aside = options.json};
}

void print_report(const Options& options, const InsertReport& report) {
  for (const auto& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("inserted {} into {}: {} tensors of maps, all others byte for byte\n", options.setting,
             options.model, report.added.size());
  print_left_out(report.left_out);
  fmt::print("wrote {}\n", options.out);
}

void print_json(const Options& options, const InsertReport& report, const Proof& proof) {
  const nlohmann::ordered_json json{{"model", options.model},
                                    {"out", options.out},
                                    {"setting", options.setting},
                                    {"added", report.added},
                                    {"warnings", report.warnings},
                                    {"left_out", report.left_out},
                                    {"verification", to_string(proof.verdict)}};
  fmt::print("{}\n", json.dump(2));
}

int run(Options options) {
  options.model = resolve_model_folder(options.model).string();
  const InsertReport report =
      insert_maps(options.model, options.out,
                  {.knocks = named_setting(options.setting, "--setting").knocks,
                   .layers = {options.layers.begin(), options.layers.end()}});
  if (!options.json) print_report(options, report);
  const ProofRequest request = proof_of(options);
  const Proof proof = prove_equal(request);
  if (options.json) print_json(options, report, proof);
  if (!options.json || !proof.good()) print_verdict(request, proof.verdict, "new");
  if (proof.good() && !options.json) {
    fmt::print("next: kha train CONFIG --set init.from={}\n", options.out);
  }
  return proof.exit_code;
}

std::string setting_list() {
  std::string list;
  for (const auto& setting : named_settings()) {
    if (setting.knocks.any()) list += (list.empty() ? "" : ", ") + setting.name;
  }
  return list;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a model folder, or a run (its latest checkpoint)")
      ->required();
  app.add_option("OUT", options->out, "the new folder")->required();
  app.add_option("--setting", options->setting, "the maps: " + setting_list())->required();
  app.add_option("--layers", options->layers, "layer numbers, comma-separated; none: all")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--text", options->text,
                 "a text file or folder to compare both models on; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--no-verify", options->no_verify, "do not compare the two models");
  add_json_option(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace

Command insert_command() {
  return {"insert", "put maps at the identity into a model, to train on", add};
}

}  // namespace kha::cli
