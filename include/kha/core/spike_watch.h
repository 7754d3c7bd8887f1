// The spikes of a run: every definition over its losses and gradient norms, one step at a time as
// the trainer has them or over a whole series.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kha/core/deviation_rule.h"
#include "kha/core/loss_events.h"

namespace kha {

// One step as the run logged it. What was not finite is NaN.
struct StepRecord {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> grad_norm = {};  // nothing: not logged
};

// What `train.spike` acts on: a loss or gradient norm that is a spike by OLMo-core's rule.
struct SpikeVerdict {
  Standing loss = {}, grad_norm = {};
  bool spike() const { return loss.spike || grad_norm.spike; }
};

struct DeviationFigures {
  int64_t values = 0;        // steps with such a value
  int64_t olmo2_judged = 0;  // of them with 1,000 before
  double olmo2_score = 0;    // per cent of those judged
  int64_t olmo2_spikes = 0;
  double olmo_core_rate = 0;    // per cent of all values
  double olmo_core_recent = 0;  // of the last 10,000
  int64_t olmo_core_spikes = 0;
};

struct SpikeFigures {
  DeviationFigures loss, grad_norm;
  std::vector<LossEvent> events;  // all, those of the warm-up too
  int64_t warmup = 0;             // steps
  int64_t events_after_warmup = 0;
  int64_t steps_after_warmup = 0;  // that were judged
  // Events per 1,000 steps after the warm-up; 0 where no step was judged.
  double per_thousand() const;
};

class SpikeWatch {
 public:
  // The next step against those before it; nothing is taken in.
  SpikeVerdict judge(const StepRecord& record) const;
  SpikeVerdict add(const StepRecord& record);

  // Steps running, up to the last one, whose loss or gradient norm was not finite.
  int64_t not_finite_running() const { return not_finite_; }

  int64_t events() const { return static_cast<int64_t>(events_.events().size()); }
  SpikeFigures figures(int64_t warmup) const;

 private:
  DeviationCounter loss_olmo2_{olmo2_rule}, loss_core_{olmo_core_rule};
  DeviationCounter norm_olmo2_{olmo2_rule}, norm_core_{olmo_core_rule};
  LossEventFinder events_;
  int64_t not_finite_ = 0;
};

SpikeWatch watch_spikes(std::span<const StepRecord> series);

// A JSON object; what JSON cannot say is null.
std::string to_json(const SpikeFigures& figures);
// Lines for a terminal: the scores, the rate of events, and each event with its step.
std::string to_text(const SpikeFigures& figures);

}  // namespace kha
