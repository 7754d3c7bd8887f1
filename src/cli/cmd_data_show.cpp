#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cmd_data.h"
#include "cli/run_options.h"
#include "kha/core/batch.h"
#include "kha/core/corpus_line.h"
#include "kha/core/run_corpus.h"

namespace kha::cli {
namespace {

struct Arguments {
  RunArguments run;
  std::int64_t step = -1;
  std::int64_t row = -1;  // -1: all rows
  std::int64_t document = 0;
};

// One line of printable text, whatever the bytes are.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Neighbouring targets of one document that count, or do not.
struct Stretch {
  std::int64_t document = 0;
  bool counted = false;
  std::vector<std::int64_t> ids;
};

std::vector<Stretch> stretches_of(const Batch& batch, std::int64_t row) {
  std::vector<Stretch> result;
  for (std::int64_t i = row * batch.context; i < (row + 1) * batch.context; ++i) {
    const bool counted = batch.counted[i] != 0;
    if (batch.documents[i] < 0) break;
    if (result.empty() || result.back().document != batch.documents[i] ||
        result.back().counted != counted) {
      result.push_back({batch.documents[i], counted, {}});
    }
    result.back().ids.push_back(batch.targets[i]);
  }
  return result;
}

// `first_row` is the number of the batch's first row in its step.
void print_row(const RunCorpus& corpus, const Tokenizer& tokenizer, const Batch& batch,
               const Window& window, std::int64_t row, std::int64_t first_row) {
  const std::string& name = corpus.names[window.source];
  const TokenShard& shard = corpus.sources[window.source].train;
  fmt::print("row {}: {}tokens {} to {} of {}\n", first_row + row, name.empty() ? "" : name + ", ",
             window.begin, window.begin + window.targets, shard.path().string());
  const std::int64_t first[] = {batch.inputs[row * batch.context]};
  fmt::print("  given          {}\n", quoted(tokenizer.decode(first)));
  std::int64_t before = shard.document_of(window.begin);
  for (const Stretch& stretch : stretches_of(batch, row)) {
    if (stretch.document != before) fmt::print("  -- document {} --\n", stretch.document);
    before = stretch.document;
    const bool ends = tokenizer.end_id() >= 0 && stretch.ids.back() == tokenizer.end_id();
    fmt::print("  {:<14} {}{}\n", stretch.counted ? "learned" : "not learned",
               quoted(tokenizer.decode(stretch.ids)), ends ? " + end mark" : "");
  }
}

int show_step(const Arguments& arguments) {
  const RunConfig config = read_run(arguments.run);
  Progress progress("");
  const RunCorpus corpus = prepare_run_corpus(config, CorpusLine(progress));
  progress.clear();
  const BatchPlan plan = batch_plan(config, corpus);
  const std::int64_t rows = plan.sequences_per_batch();
  if (arguments.row >= rows) {
    fail({.what = "a batch of this run has no such row",
          .where = fmt::format("--row {}", arguments.row),
          .expected = fmt::format("0 to {}", rows - 1)});
  }
  const std::int64_t begin = std::max<std::int64_t>(arguments.row, 0);
  const auto windows = plan.windows(arguments.step, begin, arguments.row < 0 ? rows : 1);
  Batch batch;
  fill_batch(corpus.train_shards(), windows, config.train.context,
             config.data.boundary_targets ? BoundaryTargets::counted : BoundaryTargets::left_out,
             batch);
  fmt::print("step {}: {} of {} targets learned\n", arguments.step, batch.counted_targets,
             batch.targets.size());
  for (std::int64_t i = 0; i < batch.rows; ++i) {
    print_row(corpus, *corpus.tokenizer, batch, windows[i], i, begin);
  }
  return 0;
}

int show_document(const Arguments& arguments) {
  RunArguments run = arguments.run;
  run.file.clear();
  const auto tokenizer = run_tokenizer(read_run(run));
  const TokenShard shard = TokenShard::open(arguments.run.file, tokenizer->hash());
  if (arguments.document >= shard.documents()) {
    fail({.what = "the shard has no such document",
          .where = fmt::format("{}, --document {}", shard.path().string(), arguments.document),
          .expected = fmt::format("one below {}", shard.documents())});
  }
  const std::int64_t begin = shard.document_begin(arguments.document);
  std::vector<std::int64_t> ids(shard.document_end(arguments.document) - begin);
  shard.copy(begin, static_cast<std::int64_t>(ids.size()), ids.data());
  const std::span<const std::int64_t> all(ids);
  const std::int64_t prompt = shard.prompt_tokens(arguments.document);
  fmt::print("document {} of {}: tokens {} to {}\n", arguments.document, shard.documents(), begin,
             begin + static_cast<std::int64_t>(ids.size()) - 1);
  if (prompt > 0) fmt::print("  not learned    {}\n", quoted(tokenizer->decode(all.first(prompt))));
  fmt::print("  learned        {}\n", quoted(tokenizer->decode(all.subspan(prompt))));
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.run.file.ends_with(".tokens")) return show_document(arguments);
  if (arguments.step >= 0) return show_step(arguments);
  fail({.what = "which batch is to be shown?",
        .expected = "--step N, of a run; or a file that ends in .tokens",
        .next = "kha data show " + arguments.run.file + " --step 0"});
}

}  // namespace

Command data_show_command() {
  return {"show", "print the text of any batch of a run, or of a token shard", [](CLI::App& app) {
            auto arguments = std::make_shared<Arguments>();
            add_config_options(app, arguments->run);
            app.add_option("--step", arguments->step, "the batch of this step, from 0")
                ->check(CLI::NonNegativeNumber);
            app.add_option("--row", arguments->row, "one row of it; all without")
                ->check(CLI::NonNegativeNumber);
            app.add_option("--document", arguments->document, "of a shard; the first without")
                ->check(CLI::NonNegativeNumber);
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace kha::cli
