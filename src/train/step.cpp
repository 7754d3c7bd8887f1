#include "train/step.h"

#include <ATen/record_function.h>

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
  StepResult result = compute();
  TrainingState& s = session_.state;
  result.seconds = seconds_since(begin);
  result.faults = minor_faults() - faults;
  s.step += 1;
  s.tokens += session_.config.tokens_per_step();
  s.seconds += result.seconds;
  s.data = plan_.position(s.step);
  return result;
}

// The marks are the parts of a profile; what the model's own parts do not claim of a gradient is
// the head and the loss.
StepResult TrainStep::compute() {
  RECORD_USER_SCOPE("kha/rest of the step");
  fill_micro_batches(session_.state.step);
  const double loss = gradient();
  const double norm = check_and_clip(loss);
  return {.loss = loss, .norm = norm, .lr = update()};
}

double TrainStep::gradient() {
  RECORD_USER_SCOPE("kha/head and loss");
  return accumulate_gradient(session_.config.model, session_.parameters, micro_batches_,
                             session_.packing(), session_.arithmetic);
}

double TrainStep::check_and_clip(double loss) {
  RECORD_USER_SCOPE("kha/norm and clipping");
  const auto& trainable = session_.optimizer->trainable();
  const double norm = gradient_norm(trainable);
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    stop_for_nonfinite({.folder = folder_,
                        .step = session_.state.step + 1,
                        .loss = loss,
                        .parameter = first_bad_gradient(trainable),
                        .batches = micro_batches_});
  }
  const double limit = session_.config.optimizer.clip;
  if (limit > 0) clip_gradient(trainable, norm, limit);
  return norm;
}

double TrainStep::update() {
  RECORD_USER_SCOPE("kha/optimiser");
  const RunConfig& c = session_.config;
  const double lr =
      c.optimizer.lr * schedule_factor(c.schedule, session_.state.step + 1, c.train.steps);
  session_.optimizer->step(lr);
  return lr;
}

const std::vector<Batch>& TrainStep::next_batches() {
  fill_micro_batches(session_.state.step);
  return micro_batches_;
}

void TrainStep::fill_micro_batches(int64_t step) {
  RECORD_USER_SCOPE("kha/data");
  const TrainOptions& t = session_.config.train;
  micro_batches_.resize(t.accumulate);
  for (int64_t i = 0; i < t.accumulate; ++i) {
    fill_batch(session_.corpus->train_shards(), plan_.windows(step, i * t.batch, t.batch),
               t.context, session_.evaluation_plan().boundary, micro_batches_[i]);
  }
}

}  // namespace kha
