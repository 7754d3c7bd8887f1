#include "kha/core/run_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kha/core/error.h"
#include "kha/core/model_folder.h"
#include "kha/core/model_tokenizer.h"
#include "kha/core/program_beside.h"

namespace kha {
namespace {

void check_paths(const DataOptions& data) {
  if (data.paths.empty()) {
    fail({.what = "the run has no text",
          .where = "data.paths",
          .expected = "files or folders",
          .found = "an empty list",
          .next = "--set 'data.paths=[\"FOLDER\"]', or set it in the file"});
  }
  if (data.weights.empty() || data.weights.size() == data.paths.size()) return;
  fail({.what = "data.weights does not fit data.paths",
        .where = "data.weights",
        .expected = fmt::format("{} weights, one a path", data.paths.size()),
        .found = fmt::format("{}", data.weights.size())});
}

CorpusOptions options_for(const RunConfig& config, std::vector<std::string> paths,
                          std::shared_ptr<const Tokenizer> tokenizer) {
  const DataOptions& data = config.data;
  return {.text = {.paths = std::move(paths), .extensions = data.extensions},
          .tokenizer = std::move(tokenizer),
          .validation_share = data.validation_share,
          .split_seed = static_cast<std::uint64_t>(data.split_seed),
          .cache_dir = data.cache.empty() ? std::filesystem::path(config.run.folder) / ".data"
                                          : std::filesystem::path(data.cache),
          .expected_fingerprint = data.weights.empty() ? data.fingerprint : "",
          .context = config.train.context,
          .threads = static_cast<unsigned>(config.train.threads),
          .keys = {.text = data.text_key, .prompt = data.prompt_key, .answer = data.answer_key},
          .most_bad_lines = data.bad_lines,
          .raw_type = data.raw_type,
          .parquet_reader = program_beside("kha-parquet").value_or("")};
}

}  // namespace

std::vector<const TokenShard*> RunCorpus::train_shards() const {
  std::vector<const TokenShard*> shards;
  for (const Corpus& source : sources) shards.push_back(&source.train);
  return shards;
}

bool RunCorpus::has_validation() const {
  return std::ranges::any_of(sources, [](const Corpus& s) { return s.validation.has_value(); });
}

std::int64_t RunCorpus::train_tokens() const {
  return std::accumulate(
      sources.begin(), sources.end(), std::int64_t{0},
      [](std::int64_t sum, const Corpus& source) { return sum + source.train.tokens(); });
}

double RunCorpus::share(std::size_t source) const {
  return weights[source] / std::accumulate(weights.begin(), weights.end(), 0.0);
}

std::string RunCorpus::fingerprint() const {
  if (sources.size() == 1) return sources.front().summary.fingerprint;
  ChecksumStream128 all;
  for (const Corpus& source : sources) {
    all.update(std::as_bytes(std::span(source.summary.fingerprint)));
  }
  return to_hex(all.digest());
}

std::vector<CorpusOptions> corpus_options(const RunConfig& config,
                                          std::shared_ptr<const Tokenizer> tokenizer) {
  const DataOptions& data = config.data;
  check_paths(data);
  if (data.weights.empty()) return {options_for(config, data.paths, std::move(tokenizer))};
  std::vector<CorpusOptions> options;
  for (const std::string& path : data.paths)
    options.push_back(options_for(config, {path}, tokenizer));
  return options;
}

std::shared_ptr<const Tokenizer> run_tokenizer(const RunConfig& config) {
  if (!config.data.tokenizer.empty()) return open_tokenizer(config.data.tokenizer);
  if (config.init.from.empty()) return byte_tokenizer();
  const auto folder = resolve_model_folder(config.init.from);
  return open_model_tokenizer(folder, read_model_config(folder).vocab_size);
}

RunCorpus prepare_run_corpus(const RunConfig& config, const CorpusProgress& progress) {
  RunCorpus corpus;
  corpus.tokenizer = run_tokenizer(config);
  for (const CorpusOptions& options : corpus_options(config, corpus.tokenizer)) {
    corpus.sources.push_back(prepare_corpus(options, progress));
  }
  const DataOptions& data = config.data;
  corpus.weights = data.weights.empty() ? std::vector<double>{1} : data.weights;
  corpus.names = data.weights.empty() ? std::vector<std::string>{""} : data.paths;
  return corpus;
}

std::vector<std::string> describe(const RunCorpus& corpus) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < corpus.sources.size(); ++i) {
    if (corpus.sources.size() > 1) {
      lines.push_back(fmt::format("source {}, {:.2f} % of the sequences:", corpus.names[i],
                                  100 * corpus.share(i)));
    }
    for (auto& line : describe(corpus.sources[i].summary)) lines.push_back(std::move(line));
  }
  return lines;
}

BatchPlan batch_plan(const RunConfig& config, const RunCorpus& corpus) {
  std::vector<PlanSource> sources;
  for (std::size_t i = 0; i < corpus.sources.size(); ++i) {
    sources.push_back({corpus.sources[i].train.tokens(), corpus.weights[i]});
  }
  return {sources, config.train.context, config.train.batch * config.train.accumulate,
          static_cast<std::uint64_t>(config.run.seed)};
}

}  // namespace kha
