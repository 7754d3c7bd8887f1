#include "train/step.h"

#include <chrono>
#include <cmath>

#include "train/nonfinite.h"
#include "train/process_figures.h"
#include "train/schedule.h"

namespace kha {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

TrainStep::TrainStep(Session& session, std::filesystem::path folder)
    : session_(session), folder_(std::move(folder)), plan_(session.batch_plan()) {}

StepResult TrainStep::make() {
  const auto begin = Clock::now();
  const int64_t faults = minor_faults();
  TrainingState& s = session_.state;
  const TrainOptions& t = session_.config.train;
  fill_micro_batches(s.step);
  const double loss = accumulate_gradient(session_.config.model, session_.parameters,
                                          micro_batches_, session_.arithmetic);
  const auto& trainable = session_.optimizer->trainable();
  const double norm = gradient_norm(trainable);
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    stop_for_nonfinite({.folder = folder_,
                        .step = s.step + 1,
                        .loss = loss,
                        .parameter = first_bad_gradient(trainable),
                        .batches = micro_batches_});
  }
  const OptimizerOptions& o = session_.config.optimizer;
  if (o.clip > 0) clip_gradient(trainable, norm, o.clip);
  const double lr = o.lr * schedule_factor(session_.config.schedule, s.step + 1, t.steps);
  session_.optimizer->step(lr);
  const double seconds = seconds_since(begin);
  s.step += 1;
  s.tokens += session_.config.tokens_per_step();
  s.seconds += seconds;
  s.data = plan_.position(s.step);
  return {loss, norm, lr, seconds, minor_faults() - faults};
}

const std::vector<Batch>& TrainStep::next_batches() {
  fill_micro_batches(session_.state.step);
  return micro_batches_;
}

void TrainStep::fill_micro_batches(int64_t step) {
  const TrainOptions& t = session_.config.train;
  micro_batches_.resize(t.accumulate);
  for (int64_t i = 0; i < t.accumulate; ++i) {
    fill_batch(session_.corpus->train, plan_.windows(step, i * t.batch, t.batch), t.context,
               session_.evaluation_plan().boundary, micro_batches_[i]);
  }
}

}  // namespace kha
