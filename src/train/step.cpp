#include "train/step.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kha/core/schedule.h"
#include "train/balance.h"
#include "train/nonfinite.h"
#include "train/process_figures.h"

namespace kha {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t most_not_finite = 8;  // steps running that a policy leaves out

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

TrainStep::TrainStep(Session& session, std::filesystem::path folder, SpikeWatch* watch)
    : session_(session),
      folder_(std::move(folder)),
      watch_(watch),
      policy_(watch ? parse_spike_policy(session.config.train.spike) : SpikeAction::note),
      plan_(session.batch_plan()) {}

StepResult TrainStep::make() {
  const auto begin = Clock::now();
  const int64_t faults = minor_faults();
  StepResult result = compute();
  result.seconds = seconds_since(begin);
  result.faults = minor_faults() - faults;
  if (result.action == SpikeAction::back) return result;
  TrainingState& s = session_.state;
  s.step += 1;
  s.tokens += session_.config.tokens_per_step();
  s.seconds += result.seconds;
  s.data = plan_.position(s.batch());
  if (watch_) watch_->add({s.step, result.loss, result.norm});
  return result;
}

// The marks are the parts of a profile; what the model's own parts do not claim of a gradient is
// the head and the loss.
StepResult TrainStep::compute() {
  RECORD_USER_SCOPE("kha/rest of the step");
  const RunConfig& c = session_.config;
  const int64_t step = session_.state.step + 1;
  fill_micro_batches(session_.state.batch());
  StepResult result{.lr = c.optimizer.lr * schedule_factor(c.schedule, step, c.train.steps)};
  result.loss = gradient(result.experts);
  judge(result);
  if (result.action == SpikeAction::skip || result.action == SpikeAction::back) {
    session_.optimizer->drop_gradients();
    return result;
  }
  clip(result.norm);
  update(result.lr, result.experts);
  return result;
}

double TrainStep::gradient(ExpertCounts& experts) {
  RECORD_USER_SCOPE("kha/head and loss");
  const RunConfig& c = session_.config;
  const AuxiliaryLosses losses{.balance = c.experts.balance_loss,
                               .router_z = c.experts.router_z_loss,
                               .output_z = c.train.z_loss};
  return accumulate_gradient(c.model, session_.parameters, micro_batches_, session_.packing(),
                             session_.arithmetic, losses, &experts);
}

void TrainStep::judge(StepResult& result) {
  RECORD_USER_SCOPE("kha/norm and clipping");
  const auto& trainable = session_.optimizer->trainable();
  const int64_t step = session_.state.step + 1;
  result.norm = gradient_norm(trainable);
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.norm);
  // The watch read them from the log, so that a run that was stopped goes on counting.
  const int64_t running = (watch_ && !finite ? watch_->not_finite_running() : 0) + 1;
  // Weights that are broken give no finite loss on any batch: leaving batches out does not help.
  if (!finite && (policy_ == SpikeAction::note || running > most_not_finite)) {
    stop_for_nonfinite({.folder = folder_,
                        .step = step,
                        .loss = result.loss,
                        .parameter = first_bad_gradient(trainable),
                        .batches = micro_batches_});
  }
  if (!watch_) return;
  result.spikes = watch_->judge({step, result.loss, result.norm});
  result.action = decide(policy_, result.spikes, finite);
}

void TrainStep::clip(double norm) {
  RECORD_USER_SCOPE("kha/norm and clipping");
  const double limit = session_.config.optimizer.clip;
  if (limit > 0) clip_gradient(session_.optimizer->trainable(), norm, limit);
}

void TrainStep::update(double lr, const ExpertCounts& experts) {
  RECORD_USER_SCOPE("kha/optimiser");
  session_.optimizer->step(lr);
  const RunConfig& c = session_.config;
  const double share = static_cast<double>(session_.state.step) /
                       static_cast<double>(std::max<int64_t>(c.train.steps, 1));
  if (share >= c.experts.balance_until) return;
  balance_experts(c.model, c.experts, experts, session_.parameters);
}

const std::vector<Batch>& TrainStep::next_batches() {
  fill_micro_batches(session_.state.batch());
  return micro_batches_;
}

void TrainStep::fill_micro_batches(int64_t batch) {
  RECORD_USER_SCOPE("kha/data");
  const TrainOptions& t = session_.config.train;
  micro_batches_.resize(t.accumulate);
  for (int64_t i = 0; i < t.accumulate; ++i) {
    fill_batch(session_.corpus->train_shards(), plan_.windows(batch, i * t.batch, t.batch),
               t.context, session_.evaluation_plan().boundary, micro_batches_[i]);
  }
}

}  // namespace kha
