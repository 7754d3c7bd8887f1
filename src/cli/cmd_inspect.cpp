// kha inspect: what a model is, in words and figures, without loading its weights.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/cmd_inspect_run.h"
#include "cli/commands.h"
#include "cli/grouped_number.h"
#include "kha/core/attention_system.h"
#include "kha/core/check_tensors.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "kha/core/legality.h"
#include "kha/core/map_report.h"
#include "kha/core/model_folder.h"
#include "kha/core/model_warnings.h"
#include "kha/core/parameter_table.h"

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

// All that is counted of one model.
struct Summary {
  std::filesystem::path folder;
  ModelConfig config;
  ParameterCount parameters;
  FlopCount flops;      // at the longest context of the config
  int64_t cache_bytes;  // a token, in the type of the weights
  DType dtype;          // of the key projection
  uint64_t data_bytes;
  size_t files;
};

Summary summarise(const std::filesystem::path& folder, const ModelConfig& c,
                  const ModelFiles& files) {
  const auto& system = attention_declaration(c.attention, folder.string());
  const std::string key =
      attention_prefix(0) + system.place(KnockSlot::k).projection(c) + ".weight";
  const DType dtype = files.at(key).dtype;
  const auto element = static_cast<int64_t>(size_of(dtype));
  return {folder,
          c,
          count_parameters(c),
          flops_per_token(c, c.max_position_embeddings),
          c.num_hidden_layers * system.cache_elements(c) * element,
          dtype,
          files.data_bytes(),
          files.files().size()};
}

std::string flops_text(double flops) {
  static const char* const units[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(units); ++unit) flops /= 1000;
  return fmt::format("{:.4g} {}FLOP", flops, units[unit]);
}

std::string knocks_text(const LayerKnocks& knocks) {
  std::string text;
  for (const KnockSlot slot : knock_slots) {
    if (knocks.at(slot) == KnockKind::none) continue;
    text += (text.empty() ? "" : ", ") + to_string(knocks.at(slot)) + " on " + to_string(slot);
  }
  return text.empty() ? "none" : text;
}

double percent(double part, double whole) { return 100 * part / whole; }

void print_line(const char* label, const std::string& text) {
  fmt::print("{:<11}{}\n", label, text);
}

void print_maps(const Summary& s) {
  const ModelConfig& c = s.config;
  if (!c.knocks.any(c.num_hidden_layers)) return print_line("maps", "none");
  print_line("maps",
             fmt::format("{} ({}), {} parameters ({:.3g} % of all)", knocks_text(c.knocks.all),
                         setting_name(c.knocks), grouped(s.parameters.knock),
                         percent(s.parameters.knock, s.parameters.total)));
  for (const auto& [layer, knocks] : c.knocks.layers) {
    print_line("", fmt::format("layer {}: {}", layer, knocks_text(knocks)));
  }
}

void print_experts(const Summary& s) {
  const ExpertConfig& e = s.config.experts;
  if (!e.any()) return;
  print_line("experts",
             fmt::format("{} of width {}, {} a token, {} shared, {} dense layers in front", e.count,
                         e.width, e.active, e.shared, e.first_dense));
  print_line("router",
             fmt::format("{}{}{}, weights {} times {}", e.router,
                         e.selection_bias() ? " with a selection bias" : "",
                         e.groups > 1 ? fmt::format(", the best {} of {} groups of experts",
                                                    e.open_groups, e.groups)
                                      : "",
                         e.normalise ? "normalised" : "as scored", e.scaling));
  print_line("active",
             fmt::format("{} parameters a token, {} without the embedding",
                         grouped(s.parameters.active), grouped(s.parameters.active_body)));
}

std::string scaling_in_words(const RotaryScaling& scaling) {
  if (scaling.kind == "default") return "";
  const int64_t original = scaling.original_max_position_embeddings;
  return fmt::format(", {} scaling by {:g}{}", scaling.kind, scaling.factor,
                     original > 0 ? fmt::format(" from {} positions", grouped(original)) : "");
}

void print_summary(const Summary& s) {
  const ModelConfig& c = s.config;
  print_line("model", s.folder.string());
  print_line("kind",
             fmt::format("{}{}, attention {}: {}", c.plain() ? "" : "kha on ", c.base_type(),
                         c.attention, attention_declaration(c.attention, "").meaning));
  print_line("sizes", fmt::format("{} layers, width {}, feed-forward {}, vocabulary {}{}",
                                  c.num_hidden_layers, c.hidden_size, c.intermediate_size,
                                  grouped(c.vocab_size), c.tie_word_embeddings ? " (tied)" : ""));
  print_line("heads", fmt::format("{} query, {} KV, {} wide{}{}", c.num_attention_heads,
                                  c.num_key_value_heads, c.head_dim,
                                  c.attention != "gqa" ? ""
                                  : c.qk_norm          ? ", QK-norm per head"
                                                       : ", no QK-norm",
                                  c.attention_bias ? ", with biases" : ""));
  print_line(
      "context",
      fmt::format("{} tokens, rotary base {:g}, {}{}", grouped(c.max_position_embeddings),
                  c.rope_theta, c.rotary_layout,
                  c.rotary_scaling.kind == "default" ? "" : scaling_in_words(c.rotary_scaling)));
  print_line("parameters", fmt::format("{}, of which {} embed", grouped(s.parameters.total),
                                       grouped(s.parameters.embedding)));
  print_experts(s);
  print_maps(s);
  print_line("arithmetic",
             fmt::format("{} a token at the full context, {} in training; maps {:.3g} %",
                         flops_text(s.flops.forward), flops_text(s.flops.training()),
                         percent(s.flops.knock, s.flops.forward)));
  print_line("KV cache", fmt::format("{} bytes a token in {}", grouped(s.cache_bytes),
                                     safetensors_name(s.dtype)));
  print_line("weights", fmt::format("{} bytes in {} file{}", grouped(s.data_bytes), s.files,
                                    s.files == 1 ? "" : "s"));
}

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

Json summary_json(const Summary& s) {
  return {{"model", s.folder.string()},
          {"config", Json::parse(to_config_json(s.config))},
          {"setting", setting_name(s.config.knocks)},
          {"parameters",
           {{"total", s.parameters.total},
            {"maps", s.parameters.knock},
            {"embedding", s.parameters.embedding},
            {"experts", s.parameters.experts},
            {"active", s.parameters.active}}},
          {"flops_per_token",
           {{"context", s.config.max_position_embeddings},
            {"forward", s.flops.forward},
            {"training", s.flops.training()},
            {"maps", s.flops.knock}}},
          {"kv_cache_bytes_per_token", s.cache_bytes},
          {"dtype", safetensors_name(s.dtype)},
          {"weight_bytes", s.data_bytes},
          {"files", s.files}};
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

int run(const Options& options) {
  if (options.legality) return print_legality(options);
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
  const Summary summary = summarise(folder, config, files);
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
