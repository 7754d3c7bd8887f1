// The [data] table of a run as the text it trains on.
#pragma once

#include <memory>
#include <vector>

#include "kha/core/batch_plan.h"
#include "kha/core/corpus.h"
#include "kha/core/run_config.h"

namespace kha {

// All text of a run. Without data.weights one source has every path; with them each path is a
// source of its own, with shards, epochs and a held-out part of its own.
struct RunCorpus {
  std::vector<Corpus> sources;
  std::vector<std::string> names;  // the path of each source; "" of a single one
  std::vector<double> weights;
  std::shared_ptr<const Tokenizer> tokenizer = byte_tokenizer();  // that made the ids

  // By Window::source. They live as long as this object.
  std::vector<const TokenShard*> train_shards() const;
  bool has_validation() const;
  std::int64_t train_tokens() const;
  double share(std::size_t source) const;  // its weight, divided by the sum of all
  // Of one source its own, of several the XXH3-128 of all of theirs.
  std::string fingerprint() const;
};

// Options for each source. Throws Error when the run names no text, or not one weight a path.
std::vector<CorpusOptions> corpus_options(const RunConfig& config,
                                          std::shared_ptr<const Tokenizer> tokenizer);

// The tokenizer that the run names; else that of the model it starts from; else bytes. Errors: as
// open_tokenizer() and open_model_tokenizer().
std::shared_ptr<const Tokenizer> run_tokenizer(const RunConfig& config);

// With run_tokenizer(). Errors: as that, corpus_options() and prepare_corpus().
RunCorpus prepare_run_corpus(const RunConfig& config, const CorpusProgress& progress = {});

// Lines for people: describe() of every source, under its name and share where there are several.
std::vector<std::string> describe(const RunCorpus& corpus);

// The order of the run's batches. Errors: as BatchPlan.
BatchPlan batch_plan(const RunConfig& config, const RunCorpus& corpus);

}  // namespace kha
