// What a run does about a loss or gradient norm that is a spike, or not a number: `train.spike`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kha/core/spike_watch.h"
#include "train/training_state.h"

namespace kha {

// The choices of `train.spike`, and what a single step led to.
enum class SpikeAction {
  none,
  note,  // a line in the log; the step is made
  skip,  // the batch's gradient is dropped: weights and moments stay as they are
  back,  // the run goes back to its last good checkpoint, its data does not
  stop,  // no policy helps: the run ends with an error
};

SpikeAction parse_spike_policy(const std::string& name);
std::string to_string(SpikeAction action);

// A loss or norm that is not finite is skipped or gone back from; with `note` the run cannot go on,
// which the caller says. A gradient norm alone is no reason to go back.
SpikeAction decide(SpikeAction policy, const SpikeVerdict& verdict, bool finite);

// "loss 3.1204 (mean 2.0121 and deviation 0.0312 of the 128 steps before)"
std::string in_words(const SpikeVerdict& verdict, double loss, double grad_norm);

// The line of metrics.jsonl that says what was done about the batch of step `at`. `state` is the
// run's afterwards.
struct SpikedStep {
  int64_t at = 0;
  double loss = 0, grad_norm = 0, lr = 0;
};
nlohmann::ordered_json spike_line(const TrainingState& state, SpikeAction action,
                                  const SpikedStep& step);

}  // namespace kha
