#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cmd_data.h"
#include "cli/run_options.h"
#include "kha/core/corpus_line.h"
#include "kha/core/run_corpus.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> given;  // a run's file or folder, or text
  RunArguments run;
  bool json = false;
};

bool is_run(const std::string& path) {
  return path.ends_with(".toml") ||
         std::filesystem::is_regular_file(std::filesystem::path(path) / "config.toml");
}

// The run that was named, or one that reads the named text.
RunConfig config_of(const Arguments& arguments) {
  RunArguments run = arguments.run;
  if (arguments.given.size() == 1 && is_run(arguments.given[0])) {
    run.file = arguments.given[0];
    return read_run(run);
  }
  RunConfig config = read_run(run);
  if (!arguments.given.empty()) config.data.paths = arguments.given;
  return config;
}

// Of one side, by reading all of its ids.
struct SideFigures {
  std::int64_t documents = 0, tokens = 0, bytes = 0;
  std::int64_t longest = 0;  // tokens
  std::int64_t smallest_id = 0, largest_id = 0;
  std::int64_t prompt_tokens = 0;
};

SideFigures figures_of(const TokenShard& shard, const SplitSummary& summary) {
  shard.check_checksum();
  SideFigures side{
      .documents = shard.documents(), .tokens = shard.tokens(), .bytes = summary.bytes};
  for (std::int64_t i = 0; i < shard.documents(); ++i) {
    side.longest = std::max(side.longest, shard.document_end(i) - shard.document_begin(i));
    side.prompt_tokens += shard.prompt_tokens(i);
  }
  side.smallest_id = shard.tokens() > 0 ? shard.vocab_size() : 0;
  for (std::int64_t i = 0; i < shard.tokens(); ++i) {
    const std::int64_t id = shard.token(i);
    side.smallest_id = std::min(side.smallest_id, id);
    side.largest_id = std::max(side.largest_id, id);
  }
  return side;
}

struct Report {
  std::int64_t context = 0;
  bool good = true;  // every split fills a window
  std::vector<std::string> lines = {};
  Json json = Json::array();
};

void add_side(Report& report, Json& source, const char* name, const TokenShard& shard,
              const SplitSummary& summary) {
  const SideFigures side = figures_of(shard, summary);
  const std::int64_t windows = side.tokens > 0 ? (side.tokens - 1) / report.context : 0;
  report.good = report.good && windows > 0;
  report.lines.push_back(fmt::format(
      "  {:<11}{} documents, {} tokens (ids {} to {} of {}), longest {}, {} windows of {}", name,
      side.documents, side.tokens, side.smallest_id, side.largest_id, shard.vocab_size(),
      side.longest, windows, report.context));
  if (windows == 0) {
    report.lines.push_back(fmt::format(
        "    too small: {} tokens, and one window needs {}; add documents, or a shorter context",
        side.tokens, report.context + 1));
  }
  if (side.prompt_tokens > 0) {
    report.lines.push_back(
        fmt::format("    {} of the tokens are prompts, which are not learned", side.prompt_tokens));
  }
  source[name] = {{"documents", side.documents},
                  {"tokens", side.tokens},
                  {"bytes", side.bytes},
                  {"longest", side.longest},
                  {"smallest_id", side.smallest_id},
                  {"largest_id", side.largest_id},
                  {"prompt_tokens", side.prompt_tokens},
                  {"windows", windows}};
}

void add_source(Report& report, const Corpus& corpus) {
  const CorpusSummary& summary = corpus.summary;
  for (auto& line : describe(summary)) report.lines.push_back(std::move(line));
  Json source = Json::parse(to_json(summary));
  add_side(report, source, "train", corpus.train, summary.train);
  if (corpus.validation) {
    add_side(report, source, "validation", *corpus.validation, summary.validation);
  }
  const TextCounts& text = summary.text;
  report.lines.push_back(
      fmt::format("  in the text: {} carriage returns, {} byte order marks, {} bytes that are not "
                  "UTF-8",
                  text.carriage_returns, text.byte_order_marks, text.invalid_bytes));
  report.json.push_back(std::move(source));
}

int run(const Arguments& arguments) {
  RunConfig config = config_of(arguments);
  Report report{.context = config.train.context};
  config.train.context = -1;  // a split that is too small, or empty, is reported here, not refused
  Progress progress("");
  const RunCorpus corpus = prepare_run_corpus(config, CorpusLine(progress));
  for (const Corpus& source : corpus.sources) add_source(report, source);
  if (arguments.json) {
    progress.line(report.json.dump(2));
  } else {
    for (const auto& line : report.lines) progress.line(line);
  }
  return static_cast<int>(report.good ? ExitCode::good : ExitCode::check_failed);
}

}  // namespace

Command data_check_command() {
  return {"check", "count what a text has, and whether it fills the run's windows",
          [](CLI::App& app) {
            auto arguments = std::make_shared<Arguments>();
            app.add_option("data", arguments->given,
                           "a run's TOML file or folder, or files and folders of data");
            add_set_option(app, arguments->run);
            add_json_option(app, arguments->json);
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace kha::cli
