#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/text_input.h"
#include "cli/text_shard.h"
#include "kha/core/error.h"
#include "kha/core/model_folder.h"
#include "model/logit_difference.h"

namespace kha::cli {
namespace {

struct Arguments {
  std::string before, after;
  std::vector<std::string> text;
  int64_t context = 0, max_tokens = 4096;
  std::optional<double> limit;
  bool json = false;
};

std::vector<std::string> text_of(const Arguments& arguments, const std::filesystem::path& model) {
  if (!arguments.text.empty()) return arguments.text;
  return {own_text(model)};
}

void check_pair(const LoadedModel& before, const LoadedModel& after, const std::string& where) {
  if (before.config.vocab_size == after.config.vocab_size) return;
  fail({.what = "these two models have different vocabularies",
        .where = where,
        .expected = fmt::format("{} ids", before.config.vocab_size),
        .found = fmt::format("{} ids", after.config.vocab_size)});
}

int run(const Arguments& a) {
  const LoadedModel before = open_model(a.before), after = open_model(a.after);
  check_pair(before, after, a.after);
  const TextShard text(text_of(a, resolve_model_folder(a.before)), before.tokenizer);
  const int64_t context = a.context > 0 ? a.context : before.config.max_position_embeddings;
  const LogitDifference d = logit_difference(before, after, text.shard(), context, a.max_tokens);
  const double limit = a.limit ? *a.limit : rounding_limit(d, after.config);
  const bool good = d.largest <= limit;
  if (a.json) {
    const nlohmann::ordered_json json{{"largest", d.largest},
                                      {"limit", limit},
                                      {"equal", good},
                                      {"largest_in_float64", d.largest_exact},
                                      {"largest_logit", d.largest_logit},
                                      {"rounding", d.rounding},
                                      {"positions", d.positions},
                                      {"changed_choices", d.changed_choices}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print(
        "largest logit difference {:.3g} in float32, {:.3g} in float64, over {} positions (logits "
        "up to "
        "{:.3g}); most likely token differs at {}\n{}: limit {:.3g}{}\n",
        d.largest, d.largest_exact, d.positions, d.largest_logit, d.changed_choices,
        good ? "equal to rounding" : "NOT EQUAL", limit,
        a.limit ? "" : fmt::format(", twice the rounding of the two models ({:.2g})", d.rounding));
  }
  return good ? 0 : static_cast<int>(ExitCode::check_failed);
}

}  // namespace

Command diff_command() {
  return {"diff", "largest difference of two models' logits on given text", [](CLI::App& app) {
            auto a = std::make_shared<Arguments>();
            app.add_option("before", a->before, "model or run folder")->required();
            app.add_option("after", a->after, "model or run folder")->required();
            app.add_option("--text", a->text,
                           "a text file or folder, may be repeated; none: a file of the model")
                ->allow_extra_args(false);
            app.add_option("--context", a->context, "tokens a window; 0: the model's length")
                ->check(CLI::Range(0, 1 << 24));
            app.add_option("--max-tokens", a->max_tokens,
                           "read at most so many, evenly spread; 0: all")
                ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))
                ->capture_default_str();
            app.add_option("--limit", a->limit,
                           "largest difference allowed; none: twice the two models' own rounding")
                ->check(CLI::NonNegativeNumber);
            add_json_option(app, a->json);
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
