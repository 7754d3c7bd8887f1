// The training loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/evaluate.h"
#include "train/resume.h"
#include "train/run_summary.h"
#include "train/session.h"

namespace kha {

struct TrainRequest {
  RunConfig config;
  ResumeRequest resume;
  std::string label;          // before every live line, "kha-mlp seed 1  "
  int64_t profile_steps = 0;  // steps to record for RUN/trace.json and RUN/profile.txt; 0: none
};

struct TrainReport {
  int64_t step = 0;
  bool finished = false;    // all steps are done; else a signal ended it
  bool trained = false;     // at least one step was made now
  RunSummary summary = {};  // of the end; empty when not finished
};

// Trains to the end, or until a signal, whose state it saves. The text may have been opened by the
// caller, who trains several runs on it. Errors: everything that Error says, and a loss or gradient
// that is not finite (the batch is saved, the weights stay as of the last checkpoint).
TrainReport train(const TrainRequest& request, std::shared_ptr<const RunCorpus> corpus = {});

// Says what a run would do without doing it: model, text, groups, memory of the state, steps.
void print_plan(RunConfig config);

}  // namespace kha
