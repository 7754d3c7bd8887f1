#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cache_loss.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/text_shard.h"
#include "kha/core/progress.h"
#include "train/evaluate.h"
#include "train/what_ran.h"

namespace kha::cli {
namespace {

struct Arguments {
  std::string model, device = "cpu", precision = "fp32";
  std::vector<std::string> text;
  std::string kv_cache;  // empty: one pass over each window, without a cache
  int64_t context = 0, rows = 8, max_tokens = 0, stretch = 64;
  bool json = false;
  Packing packing;
};

Arithmetic arithmetic_of(const Arguments& arguments, const ModelConfig& model) {
  RunConfig config;
  config.model = model;
  config.train.device = arguments.device;
  config.train.precision = arguments.precision;
  config.train.context = arguments.context;
  config.train.batch = arguments.rows;
  std::vector<std::string> warnings;
  Arithmetic arithmetic = resolve_arithmetic(config, warnings);
  if (!arguments.kv_cache.empty()) {
    arithmetic.plan = choose_knock_plan(arguments.rows * arguments.stretch, model.hidden_size);
  }
  for (const auto& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  return arithmetic;
}

void print_through_cache(const Arguments& a, const std::vector<CacheLoss>& losses,
                         const ModelConfig& model, const Arithmetic& arithmetic,
                         Progress& progress) {
  const Evaluation& e = losses.front().evaluation;
  if (a.json) {
    nlohmann::ordered_json json = cache_json(losses);
    json.update({{"targets", e.targets},
                 {"bytes", e.bytes},
                 {"documents", e.documents.size()},
                 {"context", a.context},
                 {"stretch", a.stretch},
                 {"ran", what_ran(arithmetic, model)}});
    return fmt::print("{}\n", json.dump(2));
  }
  progress.line(fmt::format(
      "{}over {} tokens of {} documents in windows of {}, decoded through the cache {} tokens at "
      "once, {} on {}",
      cache_table(losses), e.targets, e.documents.size(), a.context, a.stretch,
      what_ran(arithmetic)["precision"], what_ran(arithmetic)["device"]));
}

void print_in_one_pass(const Arguments& a, const Evaluation& e, const ModelConfig& model,
                       const Arithmetic& arithmetic, Progress& progress) {
  if (a.json) {
    const nlohmann::ordered_json json{{"loss", e.loss()},
                                      {"perplexity", e.perplexity()},
                                      {"bits_per_byte", e.bits_per_byte()},
                                      {"targets", e.targets},
                                      {"bytes", e.bytes},
                                      {"documents", e.documents.size()},
                                      {"context", a.context},
                                      {"ran", what_ran(arithmetic, model)}};
    return fmt::print("{}\n", json.dump(2));
  }
  progress.line(
      fmt::format("loss {:.5f} nats a token   perplexity {:.4f}   {:.5f} bits a byte\n"
                  "over {} tokens of {} documents in windows of {}, {} on {}",
                  e.loss(), e.perplexity(), e.bits_per_byte(), e.targets, e.documents.size(),
                  a.context, what_ran(arithmetic)["precision"], what_ran(arithmetic)["device"]));
}

EvaluationPlan plan_of(const Arguments& a) {
  return {.context = a.context,
          .rows = a.rows,
          .max_tokens = a.max_tokens,
          .boundary = BoundaryTargets::counted,
          .packing = a.packing};
}

int run(Arguments arguments) {
  std::optional<KvCacheKind> kind;
  if (!arguments.kv_cache.empty()) kind = parse_kv_cache_kind(arguments.kv_cache, "--kv-cache");
  const LoadedModel model = open_model(arguments.model);
  const TextShard text(arguments.text, model.tokenizer);
  if (arguments.context == 0) arguments.context = model.config.max_position_embeddings;
  const Arithmetic arithmetic = arithmetic_of(arguments, model.config);
  const EvaluationPlan plan = plan_of(arguments);
  Progress progress("");
  const auto passing = [&](int64_t done, int64_t all) {
    if (!arguments.json) progress.passing(fmt::format("{:.0f} %", 100.0 * done / all));
  };
  const Parameters parameters = model.parameters.to(arithmetic.device);
  if (!kind) {
    const Evaluation e = evaluate(model.config, parameters, arithmetic, text.shard(),
                                  *model.tokenizer, plan, passing);
    print_in_one_pass(arguments, e, model.config, arithmetic, progress);
    return 0;
  }
  const auto decode = [&](KvCacheKind each) {
    return evaluate_through_cache(model.config, parameters, arithmetic, text.shard(),
                                  *model.tokenizer, plan, {each, arguments.stretch}, passing);
  };
  print_through_cache(arguments, cache_losses(model.config, *kind, arithmetic.dtype, decode),
                      model.config, arithmetic, progress);
  return 0;
}

}  // namespace

Command eval_command() {
  return {
      "eval", "loss, perplexity and bits a byte of a text", [](CLI::App& app) {
        auto a = std::make_shared<Arguments>();
        app.add_option("model", a->model, "model or run folder")->required();
        app.add_option("text", a->text, "text files or folders; every file is a document")
            ->required();
        app.add_option("--context", a->context, "tokens a window; 0: the model's length")
            ->check(CLI::Range(0, 1 << 24));
        app.add_option("--batch", a->rows, "windows at once")->check(CLI::Range(1, 1 << 20));
        app.add_option("--max-tokens", a->max_tokens, "read at most so many, evenly spread; 0: all")
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 50));
        app.add_option("--device", a->device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
        app.add_option("--precision", a->precision, "fp32, bf16 or auto")
            ->check(CLI::IsMember({"fp32", "bf16", "auto"}));
        auto* kv_cache = app.add_option(
            "--kv-cache", a->kv_cache,
            "decode the text through a KV cache: model, in the numbers of the arithmetic, or int8, "
            "which prints what its rounding costs beside that");
        app.add_option("--stretch", a->stretch, "tokens decoded at once")
            ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
            ->needs(kv_cache)
            ->capture_default_str();
        app.add_flag("--document-mask", a->packing.document_mask,
                     "a token sees its own document only, as data.document_mask trains");
        app.add_flag("--reset-positions", a->packing.reset_positions,
                     "each document begins at position 0, as data.reset_positions trains");
        add_json_option(app, a->json);
        return [a] { return run(*a); };
      }};
}

}  // namespace kha::cli
