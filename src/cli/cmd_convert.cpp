// kha convert: a model in another form of the same attention, with what that does to its loss.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/beside.h"
#include "cli/commands.h"
#include "cli/left_out.h"
#include "cli/proof.h"
#include "kha/core/attention_system.h"
#include "kha/core/captured_run.h"
#include "kha/core/convert.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "kha/core/model_folder.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model;
  std::string out;
  std::optional<int64_t> kv_heads;
  std::string rotary;
  std::vector<std::string> text;
  std::string limit;
  bool no_verify = false;
  bool json = false;
};

// One kind of conversion, done: its report and its words.
struct Conversion {
  ConvertReport report;
  std::string what;    // "8 KV heads to 2, each the mean of 4"
  std::string expect;  // what that does to the model, where it is not exact
  std::string untouched;
};

Conversion to_kv_heads(const Options& options) {
  const ConvertReport report = convert_kv_heads(options.model, options.out, *options.kv_heads);
  const int64_t from = report.before.num_key_value_heads, to = report.after.num_key_value_heads;
  const std::string how = report.exact ? fmt::format("each old one {} times", to / from)
                                       : fmt::format("each the mean of {}", from / to);
  return {report, fmt::format("{} KV heads to {}, {}", from, to, how),
          "the mean of heads is not what they were: expect a higher loss, and train on",
          "norms and maps, which all heads share, and everything else"};
}

Conversion to_rotary_layout(const Options& options) {
  const ConvertReport report = convert_rotary_layout(options.model, options.out, options.rotary);
  return {report,
          fmt::format("rotary layout {} to {}", report.before.rotary_layout,
                      report.after.rotary_layout),
          "", "values, their maps, and every channel that is not rotated"};
}

// Every kind has an option of its own; one is asked for.
Conversion convert(const Options& options) {
  if (options.kv_heads) return to_kv_heads(options);
  if (!options.rotary.empty()) return to_rotary_layout(options);
  fail({.what = "nothing to convert to",
        .expected = "--kv-heads N, or --rotary LAYOUT",
        .next = "kha convert " + options.model + " " + options.out + " --kv-heads 2"});
}

double loss_of(const std::filesystem::path& engine, const std::string& model,
               const std::vector<std::string>& text) {
  std::vector<std::string> words{"eval", model, "--json"};
  words.insert(words.end(), text.begin(), text.end());
  const CapturedRun run = run_captured(engine, words);
  if (run.exit_code == 0) return Json::parse(run.output).at("loss").get<double>();
  fail({.what = "the loss of " + model + " could not be measured; the new model is written",
        .where = "kha eval " + model,
        .found = run.errors,
        .next = "kha eval " + model + " TEXT"});
}

struct Losses {
  double before, after;
};

// Nothing without a text, or without the engine.
std::optional<Losses> measure(const Options& options) {
  const auto engine = program_beside("kha-engine");
  if (options.text.empty() || !engine) return {};
  return Losses{loss_of(*engine, options.model, options.text),
                loss_of(*engine, options.out, options.text)};
}

int64_t cache_elements(const ModelConfig& config) {
  return attention_declaration(config.attention, "").cache_elements(config);
}

void print_change(const Options& options, const Conversion& c) {
  const ModelConfig &before = c.report.before, &after = c.report.after;
  for (const auto& warning : c.report.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("converted {}: {}, in {} layers\n", options.model, c.what, before.num_hidden_layers);
  fmt::print("  parameters {} to {}; cache {} to {} elements a token and layer\n",
             count_parameters(before).total, count_parameters(after).total, cache_elements(before),
             cache_elements(after));
  fmt::print("  untouched: {}\n", c.untouched);
  print_left_out(c.report.left_out);
  fmt::print("wrote {}\n", options.out);
}

void print_losses(const Options& options, const std::optional<Losses>& losses) {
  if (losses) {
    fmt::print("loss {:.4f} before, {:.4f} after: {:+.4f} nats a token\n", losses->before,
               losses->after, losses->after - losses->before);
  } else if (options.text.empty()) {
    fmt::print("loss not measured: --text FILE measures it before and after\n");
  } else {
    fmt::print("loss not measured: kha-engine is not installed beside kha\n");
  }
}

void print_next(const Options& options, const Conversion& c) {
  if (!c.report.exact) fmt::print("{}\n", c.expect);
  const std::string text = options.text.empty() ? "FOLDER" : options.text.front();
  fmt::print("next: kha train --set init.from={} --set 'data.paths=[\"{}\"]' --set run.name=NAME\n",
             options.out, text);
}

void print_json(const Options& options, const Conversion& c, const Proof& proof,
                const std::optional<Losses>& losses) {
  const auto side = [](const ModelConfig& config, std::optional<double> loss) {
    Json json{{"kv_heads", config.num_key_value_heads},
              {"rotary_layout", config.rotary_layout},
              {"parameters", count_parameters(config).total},
              {"cache_elements", cache_elements(config)},
              {"loss", nullptr}};
    if (loss) json["loss"] = *loss;
    return json;
  };
  using Loss = std::optional<double>;
  const Json json{{"model", options.model},
                  {"to", options.out},
                  {"exact", c.report.exact},
                  {"before", side(c.report.before, losses ? Loss(losses->before) : Loss())},
                  {"after", side(c.report.after, losses ? Loss(losses->after) : Loss())},
                  {"warnings", c.report.warnings},
                  {"copied", c.report.copied},
                  {"left_out", c.report.left_out},
                  {"verification", to_string(proof.verdict)}};
  fmt::print("{}\n", json.dump(2));
}

int run(Options options) {
  options.model = resolve_model_folder(options.model).string();
  const Conversion conversion = convert(options);
  const bool exact = conversion.report.exact;
  if (!options.json) print_change(options, conversion);
  const ProofRequest request{.before = options.model,
                             .after = options.out,
                             .text = options.text,
                             .limit = options.limit,
                             .asked = exact && !options.no_verify,
                             .output_aside = options.json};
  const Proof proof = prove_equal(request);
  const auto losses = measure(options);
  if (options.json) print_json(options, conversion, proof, losses);
  if ((exact && !options.json) || !proof.good()) print_verdict(request, proof.verdict, "converted");
  if (options.json) return proof.exit_code;
  print_losses(options, losses);
  if (proof.good()) print_next(options, conversion);
  return proof.exit_code;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a model folder, or a run (its latest checkpoint)")
      ->required();
  app.add_option("OUT", options->out, "the new folder")->required();
  auto* kv_heads =
      app.add_option("--kv-heads", options->kv_heads,
                     "fewer KV heads, each the mean of old ones, or more, each old one repeated");
  app.add_option("--rotary", options->rotary,
                 "half_split or interleaved: the same model, its rotated channels in that order")
      ->excludes(kv_heads);
  app.add_option("--text", options->text,
                 "a text file or folder: the loss on it is printed before and after; may be "
                 "repeated")
      ->allow_extra_args(false);
  app.add_option("--limit", options->limit,
                 "largest difference of logits that passes where the conversion is exact")
      ->check(CLI::Number);
  app.add_flag("--no-verify", options->no_verify, "do not compare the two models");
  add_json_option(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace

Command convert_command() {
  return {"convert", "another number of KV heads for a model, or another rotary layout", add};
}

}  // namespace kha::cli
