// One optimiser step: the same code for the training loop and for the benchmark.
#pragma once

#include <filesystem>
#include <vector>

#include "kha/core/batch.h"
#include "kha/core/batch_plan.h"
#include "train/session.h"

namespace kha {

struct StepResult {
  double loss = 0;  // mean nats of the step's counted targets
  double norm = 0;  // of the gradient, before clipping
  double lr = 0;
  double seconds = 0;
  int64_t faults = 0;  // minor ones
};

class TrainStep {
 public:
  // `folder` is where the batch of a step that fails is written. The session must outlive this.
  TrainStep(Session& session, std::filesystem::path folder);

  // Makes the step behind session.state.step and moves that state on. Errors: as
  // stop_for_nonfinite.
  StepResult make();

  // The batches of the step that make() would make next.
  const std::vector<Batch>& next_batches();

 private:
  void fill_micro_batches(int64_t step);
  StepResult compute();
  double gradient();
  double check_and_clip(double loss);  // the norm before clipping
  double update();                     // the learning rate

  Session& session_;
  std::filesystem::path folder_;
  BatchPlan plan_;
  std::vector<Batch> micro_batches_;
};

}  // namespace kha
