#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

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
  int64_t context = 0, rows = 8, max_tokens = 0;
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
  const Arithmetic arithmetic = resolve_arithmetic(config, warnings);
  for (const auto& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  return arithmetic;
}

int run(Arguments arguments) {
  const LoadedModel model = open_model(arguments.model);
  const TextShard text(arguments.text, model.tokenizer);
  if (arguments.context == 0) arguments.context = model.config.max_position_embeddings;
  const Arithmetic arithmetic = arithmetic_of(arguments, model.config);
  const EvaluationPlan plan{.context = arguments.context,
                            .rows = arguments.rows,
                            .max_tokens = arguments.max_tokens,
                            .boundary = BoundaryTargets::counted,
                            .packing = arguments.packing};
  Progress progress("");
  const Evaluation e =
      evaluate(model.config, model.parameters.to(arithmetic.device), arithmetic, text.shard(),
               *model.tokenizer, plan, [&](int64_t done, int64_t all) {
                 if (!arguments.json) progress.passing(fmt::format("{:.0f} %", 100.0 * done / all));
               });
  if (arguments.json) {
    const nlohmann::ordered_json json{{"loss", e.loss()},
                                      {"perplexity", e.perplexity()},
                                      {"bits_per_byte", e.bits_per_byte()},
                                      {"targets", e.targets},
                                      {"bytes", e.bytes},
                                      {"documents", e.documents.size()},
                                      {"context", arguments.context},
                                      {"ran", what_ran(arithmetic, model.config)}};
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  progress.line(fmt::format(
      "loss {:.5f} nats a token   perplexity {:.4f}   {:.5f} bits a byte\n"
      "over {} tokens of {} documents in windows of {}, {} on {}",
      e.loss(), e.perplexity(), e.bits_per_byte(), e.targets, e.documents.size(), arguments.context,
      what_ran(arithmetic)["precision"], what_ran(arithmetic)["device"]));
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
        app.add_flag("--document-mask", a->packing.document_mask,
                     "a token sees its own document only, as data.document_mask trains");
        app.add_flag("--reset-positions", a->packing.reset_positions,
                     "each document begins at position 0, as data.reset_positions trains");
        add_json_option(app, a->json);
        return [a] { return run(*a); };
      }};
}

}  // namespace kha::cli
