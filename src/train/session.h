// Everything a run needs before its first step: data, model, optimiser, and where it stands.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kha/core/checkpoint_store.h"
#include "kha/core/progress.h"
#include "kha/core/run_corpus.h"
#include "train/evaluate.h"
#include "train/optimizer.h"
#include "train/run_folder.h"
#include "train/training_state.h"

namespace kha {

struct Session {
  RunConfig config;  // resolved: vocabulary and token ids set
  std::shared_ptr<const RunCorpus> corpus;
  Arithmetic arithmetic;
  std::vector<ParameterSpec> table;
  Parameters parameters;  // float32 masters on the device
  std::unique_ptr<Optimizer> optimizer;
  TrainingState state;

  BatchPlan batch_plan() const;
  Packing packing() const;
  EvaluationPlan evaluation_plan() const;
};

// Sets what the tokenizer decides of a model: vocabulary and end mark.
void take_tokenizer(RunConfig& config, const Tokenizer& tokenizer);

// Reads the text (or its shards), checks that both splits fill a window, sets what the tokenizer
// decides. Prints what it found.
std::shared_ptr<const RunCorpus> open_corpus(RunConfig& config, Progress& progress);

// Model and optimiser at step 0: from the seed, or from init.from's weights. Prints which maps were
// added and whose optimiser state was kept.
Session start_session(RunConfig config, std::shared_ptr<const RunCorpus> corpus,
                      Progress& progress);

// Writes one checkpoint and removes those that the retention drops.
void save_session(const Session& session, CheckpointStore& store);

}  // namespace kha
