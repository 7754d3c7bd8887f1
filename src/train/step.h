// One optimiser step: the same code for the training loop and for the benchmark.
#pragma once

#include <filesystem>
#include <vector>

#include "kha/core/batch.h"
#include "kha/core/batch_plan.h"
#include "train/session.h"
#include "train/spike_policy.h"

namespace kha {

struct StepResult {
  double loss = 0;  // mean nats of the step's counted targets
  double norm = 0;  // of the gradient, before clipping
  double lr = 0;
  SpikeVerdict spikes = {};
  SpikeAction action = SpikeAction::none;
  double seconds = 0;
  int64_t faults = 0;         // minor ones
  ExpertCounts experts = {};  // the load of the experts
};

class TrainStep {
 public:
  // `folder` is where the batch of a step that fails is written. `watch` judges the steps and takes
  // them in; without it no spike is seen. The session and the watch must outlive this.
  TrainStep(Session& session, std::filesystem::path folder, SpikeWatch* watch = nullptr);

  // Makes the step behind session.state.step and moves that state on; where its action is `back`
  // nothing has changed but the gradients, which are dropped. Errors: as stop_for_nonfinite, where
  // the policy does not deal with it or has in vain for several steps running.
  StepResult make();

  // The batches of the step that make() would make next.
  const std::vector<Batch>& next_batches();

 private:
  void fill_micro_batches(int64_t batch);
  StepResult compute();
  double gradient(ExpertCounts& experts);
  void judge(StepResult& result);  // the norm before clipping, and what to do
  void clip(double norm);
  void update(double lr, const ExpertCounts& experts);

  Session& session_;
  std::filesystem::path folder_;
  SpikeWatch* watch_;
  SpikeAction policy_;
  BatchPlan plan_;
  std::vector<Batch> micro_batches_;
};

}  // namespace kha
