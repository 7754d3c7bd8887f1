// Training steps on demand, for scripts/bench: one process for each contender, so that a driver
// can let them take turns. One command a line on standard input, one JSON object a line back.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "cli/synthetic_corpus.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "memory/caching_allocator.h"
#include "model/model_io.h"
#include "train/process_figures.h"
#include "train/step.h"

namespace kha::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  RunArguments run;
  int64_t vocabulary = 8192;
};

void answer(const ordered_json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

ordered_json describe(const Session& session) {
  const RunConfig& c = session.config;
  ordered_json ran = ordered_json::object();
  for (const auto& [key, value] : session.state.ran) ran[key] = value;
  return {{"ready", true},
          {"tokens", c.tokens_per_step()},
          {"parameters", count_parameters(c.model).total},
          {"flops_per_token", flops_per_token(c.model, c.train.context).training()},
          {"runs_on", ran}};
}

ordered_json make_steps(TrainStep& step, int64_t count) {
  ordered_json seconds, faults, losses, norms;
  for (int64_t i = 0; i < count; ++i) {
    const StepResult result = step.make();
    seconds.push_back(result.seconds);
    faults.push_back(result.faults);
    losses.push_back(result.loss);
    norms.push_back(result.norm);
  }
  return {{"seconds", seconds},
          {"faults", faults},
          {"loss", losses},
          {"norm", norms},
          {"peak_bytes", peak_resident_bytes()},
          {"peak_tensor_bytes", arena_counts().peak_in_use},
          {"resident_bytes", resident_bytes()}};
}

ordered_json next_batch(TrainStep& step) {
  const Batch& batch = step.next_batches().front();
  return {{"rows", batch.rows},
          {"context", batch.context},
          {"inputs", batch.inputs},
          {"targets", batch.targets}};
}

ordered_json save(const Session& session, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_model(folder, session.config.model, session.parameters, *session.corpus->tokenizer);
  return {{"saved", folder.string()}};
}

[[noreturn]] void fail_for_command(const std::string& line) {
  fail({.what = "bench-step does not know this command",
        .where = "standard input",
        .expected = "steps N, batch, save FOLDER, reset-peak or quit",
        .found = line});
}

ordered_json obey(const std::string& line, Session& session, TrainStep& step) {
  const size_t blank = line.find(' ');
  const std::string word = line.substr(0, blank);
  const std::string rest = blank == std::string::npos ? "" : line.substr(blank + 1);
  const bool number =
      !rest.empty() && rest.size() < 9 && rest.find_first_not_of("0123456789") == std::string::npos;
  if (word == "steps" && number) return make_steps(step, std::stoll(rest));
  if (word == "batch" && rest.empty()) return next_batch(step);
  if (word == "save" && !rest.empty()) return save(session, rest);
  if (word == "reset-peak" && rest.empty()) {
    reset_peak_resident();
    return {{"resident_bytes", resident_bytes()}};
  }
  fail_for_command(line);
}

int run(const Arguments& arguments) {
  RunConfig config = read_run(arguments.run);
  config.model.vocab_size = arguments.vocabulary;
  config.model.max_position_embeddings =
      std::max(config.model.max_position_embeddings, config.train.context);
  // Two batches of ids: each epoch cuts them elsewhere.
  const int64_t tokens = 2 * config.tokens_per_step() + 1;
  const auto corpus =
      synthetic_corpus(config.model.vocab_size, tokens, static_cast<uint64_t>(config.run.seed));
  Progress progress("");
  Session session = start_session(std::move(config), corpus, progress);
  TrainStep step(session, std::filesystem::temp_directory_path());
  answer(describe(session));
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    answer(obey(line, session, step));
  }
  return 0;
}

}  // namespace

Command bench_step_command() {
  return {"bench-step", "training steps on demand over standard input, for scripts/bench",
          [](CLI::App& app) {
            auto arguments = std::make_shared<Arguments>();
            add_run_options(app, arguments->run);
            app.add_option("--vocabulary", arguments->vocabulary,
                           "ids of the model; the text is made of random ones")
                ->check(CLI::Range(int64_t{2}, int64_t{1} << 24))
                ->capture_default_str();
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace kha::cli
