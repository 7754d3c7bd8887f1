// kha plan: what a run would take, from its configuration alone, before anything is allocated.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/grouped_number.h"
#include "cli/run_options.h"
#include "kha/core/attention_system.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "kha/core/memory_plan.h"
#include "kha/core/presets.h"
#include "kha/core/progress.h"
#include "kha/core/run_corpus.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  RunArguments run;
  int64_t devices = 1;
  double tokens = 0;  // 0: those of the run's steps
  double speed = 0;   // FLOP/s of one device; 0: not given
  int64_t vocabulary = 0;
  bool list = false;
  bool json = false;
};

struct Plan {
  RunConfig config;
  std::string name;
  BatchShape batch = {};
  int64_t devices = 1;
  double tokens = 0, speed = 0;
  ParameterCount parameters = {};
  FlopCount flops = {};
  int64_t cache_elements = 0;              // a token, all layers
  StepMemory step = {};                    // in float32, or in bf16 where the run says so
  std::optional<StepMemory> in_bf16 = {};  // where it is counted
  ShardedMemory sharded = {};

  bool is_bf16() const { return config.train.precision == "bf16" && in_bf16; }
  double training_flops() const { return tokens * flops.training(); }
  double seconds() const { return training_flops() / (speed * static_cast<double>(devices)); }
};

// Of the option, of a named model, or of the run's tokenizer.
int64_t vocabulary_of(const Options& options, const RunConfig& config) {
  if (options.vocabulary > 0) return options.vocabulary;
  const bool own = !config.data.tokenizer.empty();
  if (!own && !config.model_preset.empty())
    return model_preset(config.model_preset, "model.preset").vocab_size;
  const int64_t multiple = config.data.vocab_multiple;
  return (run_tokenizer(config)->vocab_size() + multiple - 1) / multiple * multiple;
}

Training training_of(const RunConfig& config) {
  Training training;
  for (const Role role : all_roles) {
    if (config.optimizer.groups[static_cast<size_t>(role)].freeze) training.frozen.insert(role);
  }
  return training;
}

Plan make_plan(const Options& options) {
  Plan p{.config = read_run(options.run),
         .name = options.run.file.empty() ? "the defaults" : options.run.file,
         .devices = options.devices,
         .speed = options.speed};
  if (!p.config.init.from.empty()) {
    fail({.what = "a plan of a run that starts from another model is not made yet",
          .where = "init.from",
          .found = p.config.init.from,
          .cause = "its sizes come from that model, not from [model]",
          .next =
              "kha inspect " + p.config.init.from + ", and plan with its sizes as --set model.*"});
  }
  ModelConfig& model = p.config.model;
  const TrainOptions& t = p.config.train;
  model.vocab_size = vocabulary_of(options, p.config);
  p.batch = {t.batch, t.context, t.accumulate, t.recompute == "layer"};
  if (p.config.knock.plan != "auto") p.batch.maps_in_weights = p.config.knock.plan == "weight";
  p.batch.document_mask = p.config.data.document_mask;
  p.tokens = options.tokens > 0
                 ? options.tokens
                 : static_cast<double>(t.steps) * static_cast<double>(p.config.tokens_per_step());
  p.parameters = count_parameters(model);
  p.flops = flops_per_token(model, t.context);
  p.cache_elements = model.num_hidden_layers *
                     attention_declaration(model.attention, p.name).cache_elements(model);
  const Training training = training_of(p.config);
  p.in_bf16 = predict_bf16_step_memory(model, p.batch, training);
  p.step = p.is_bf16() ? *p.in_bf16 : predict_step_memory(model, p.batch, training);
  p.sharded = predict_sharded_memory(model, p.batch, p.devices);
  return p;
}

std::string gib(double bytes) {
  const double mib = bytes / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

void line(const char* label, const std::string& text) { fmt::print("{:<12}{}\n", label, text); }

void print_model(const Plan& p) {
  print_chosen(p.config, "");
  const ModelConfig& m = p.config.model;
  const ParameterCount& c = p.parameters;
  line("model", fmt::format("{}: {} on {}, {} layers, width {}, vocabulary {}", p.name,
                            setting_name(m.knocks), m.attention, m.num_hidden_layers, m.hidden_size,
                            grouped(m.vocab_size)));
  line("parameters", fmt::format("{} ({} without embedding)", grouped(c.total), grouped(c.body())));
  line("active",
       fmt::format("{} a token ({} without embedding)", grouped(c.active), grouped(c.active_body)));
  line("maps",
       fmt::format("{} parameters: {:.4f} % of all, {:.4f} % of the active ones", grouped(c.knock),
                   100.0 * c.knock / (c.total - c.knock), 100.0 * c.knock / (c.active - c.knock)));
}

void print_work(const Plan& p) {
  const double base = p.flops.forward - p.flops.knock;
  line("arithmetic",
       fmt::format(
           "{:.4f} GFLOP a token forward at {} tokens, {:.4f} in training; of it maps {:.2f} "
           "MFLOP forward, {:.3f} % on top",
           p.flops.forward / 1e9, p.batch.context, p.flops.training() / 1e9, p.flops.knock / 1e6,
           100 * p.flops.knock / base));
  line("KV cache", fmt::format("{} bytes a token in bf16 ({} at {} tokens), twice that in float32",
                               grouped(2 * p.cache_elements),
                               gib(2.0 * p.cache_elements * p.batch.context), p.batch.context));
}

// What the peak of `kha train` is of, beside what the run will be in.
std::string arithmetic_text(const Plan& p) {
  const std::string& precision = p.config.train.precision;
  if (precision == "fp32") return "float32";
  if (p.is_bf16()) return fmt::format("bf16, with copies of the weights of {}", gib(p.step.copies));
  if (precision == "bf16") return "as float32: bf16 is not predicted for this model";
  const std::string in_bf16 =
      p.in_bf16 ? fmt::format("takes {}", gib(p.in_bf16->peak)) : "is not predicted for this model";
  return "float32: bf16, which `auto` takes where it is fast, " + in_bf16;
}

void print_memory(const Plan& p) {
  const StepMemory& s = p.step;
  const ShardedMemory& f = p.sharded;
  line("state", fmt::format("{} at 16 bytes a parameter, {} a device on {}", gib(f.state),
                            gib(f.state_a_device), p.devices));
  line("kha train",
       fmt::format("peak {} in tensors: weights and moments {}, kept activations {}, gradients up "
                   "to {} ({}, one process, {} x {} tokens a micro-batch)",
                   gib(s.peak), gib(s.weights + s.moments), gib(s.kept), gib(s.gradients),
                   arithmetic_text(p), p.batch.rows, p.batch.context));
  line("sharded",
       fmt::format("peak {} a device in bf16: a layer gathered {} (two at once), embedding {}, a "
                   "layer's gradients {}, activations {} + {} of one layer; logits by chunks, "
                   "whole they take {}",
                   gib(f.peak()), gib(f.layer), gib(f.embedding), gib(f.layer_gradients),
                   gib(f.activations), gib(f.recomputed), gib(f.logits)));
}

void print_budget(const Plan& p) {
  const auto a_step = static_cast<double>(p.config.tokens_per_step());
  line("budget", fmt::format("{:.4g} tokens = {:.0f} steps of {:.0f}; {:.4g} FLOP", p.tokens,
                             p.tokens / a_step, a_step, p.training_flops()));
  if (p.speed <= 0) return line("time", "not known: --speed FLOPS says how fast a device is");
  line("time", fmt::format("{:.4g} days on {} device{} of {:.4g} FLOP/s ({:.0f} tokens/s)",
                           p.seconds() / 86400, p.devices, p.devices == 1 ? "" : "s", p.speed,
                           p.tokens / p.seconds()));
}

Json to_json(const Plan& p) {
  const ParameterCount& c = p.parameters;
  const ShardedMemory& f = p.sharded;
  Json json{
      {"model", p.name},
      {"setting", setting_name(p.config.model.knocks)},
      {"vocabulary", p.config.model.vocab_size},
      {"context", p.batch.context},
      {"devices", p.devices},
      {"parameters",
       {{"total", c.total},
        {"active", c.active},
        {"total_without_embedding", c.body()},
        {"active_without_embedding", c.active_body},
        {"maps", c.knock},
        {"experts", c.experts}}},
      {"flops_per_token",
       {{"forward", p.flops.forward}, {"training", p.flops.training()}, {"maps", p.flops.knock}}},
      {"kv_cache_bytes_per_token",
       {{"bf16", 2 * p.cache_elements}, {"float32", 4 * p.cache_elements}}},
      {"state_bytes", {{"all", f.state}, {"a_device", f.state_a_device}}},
      {"step_memory",
       {{"precision", p.is_bf16() ? "bfloat16" : "float32"},
        {"weights", p.step.weights},
        {"copies", p.step.copies},
        {"moments", p.step.moments},
        {"gradients", p.step.gradients},
        {"kept", p.step.kept},
        {"peak", p.step.peak}}},
      {"sharded_memory",
       {{"layer", f.layer},
        {"embedding", f.embedding},
        {"layer_gradients", f.layer_gradients},
        {"activations", f.activations},
        {"recomputed", f.recomputed},
        {"logits", f.logits},
        {"peak", f.peak()}}},
      {"tokens", p.tokens},
      {"steps", p.tokens / static_cast<double>(p.config.tokens_per_step())},
      {"training_flops", p.training_flops()}};
  json["step_memory"]["peak_in_bf16"] = p.in_bf16 ? Json(p.in_bf16->peak) : Json();
  json["days"] = p.speed > 0 ? Json(p.seconds() / 86400) : Json();
  return json;
}

void print_list() {
  fmt::print("models: kha plan NAME, kha train NAME --set 'data.paths=[\"FOLDER\"]'\n");
  for (const auto& preset : model_presets())
    fmt::print("  {:<22}{}\n", preset.name, preset.meaning);
  fmt::print("recipes: --recipe NAME\n");
  for (const auto& preset : recipe_presets())
    fmt::print("  {:<22}{}\n", preset.name, preset.meaning);
}

int run(const Options& options) {
  if (options.list) {
    print_list();
    return 0;
  }
  const Plan plan = make_plan(options);
  if (options.json) {
    fmt::print("{}\n", to_json(plan).dump(2));
    return 0;
  }
  print_model(plan);
  print_work(plan);
  print_memory(plan);
  print_budget(plan);
  return 0;
}

}  // namespace

Command plan_command() {
  return {"plan", "what a run would take: parameters, arithmetic, memory, days", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            add_config_options(app, options->run);
            app.add_option("--devices", options->devices, "devices that share the state")
                ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
                ->capture_default_str();
            app.add_option("--tokens", options->tokens,
                           "of the whole run; those of its steps without")
                ->check(CLI::PositiveNumber);
            app.add_option("--speed", options->speed, "FLOP/s that one device reaches in training")
                ->check(CLI::PositiveNumber);
            app.add_option("--vocabulary", options->vocabulary,
                           "ids of the model; those of its tokenizer or of the named model without")
                ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
            app.add_flag("--list", options->list, "name the models and recipes there are");
            add_json_option(app, options->json);
            return [options] { return run(*options); };
          }};
}

}  // namespace kha::cli
