// `kha train --profile`: a few steps recorded once the first ones are over, then a table and a
// trace in the run's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "memory/arena.h"
#include "train/profile/breakdown.h"
#include "train/profile/recorder.h"

namespace kha {

// What was counted at the end of a recorded step.
struct StepSample {
  std::int64_t step = 0;
  std::int64_t time = 0;    // nanoseconds of the steady clock
  double seconds = 0;       // that the step took
  std::int64_t faults = 0;  // minor faults in it
  ArenaCounts memory = {};
};

class StepProfile {
 public:
  // Steps that are left alone first: they fill caches and take memory that later ones use again.
  static constexpr std::int64_t warm_up = 3;

  // Records `steps` steps of a run that stands at `first`. Errors: fewer steps are left.
  StepProfile(std::int64_t first, std::int64_t steps, std::int64_t last);

  void before_step(std::int64_t done);
  // After the step that makes `sample.step` steps done. True when the profile has just become
  // whole.
  bool after_step(const StepSample& sample);

  // Writes RUN/trace.json and RUN/profile.txt; returns what to print.
  std::string write(const std::filesystem::path& run_folder) const;

 private:
  std::int64_t begin_, end_;  // steps done before the first and after the last recorded one
  ArenaCounts memory_before_;
  ProfileRecorder recorder_;
  std::vector<StepSample> samples_;
};

// The table as text: parts, the twenty slowest operators, memory. `before`: counts of the arena
// when the first of the samples' steps began.
std::string profile_text(const Breakdown& breakdown, const std::vector<StepSample>& samples,
                         const ArenaCounts& before);

// The events in the trace format of Chrome (a JSON object with "traceEvents", times in
// microseconds since the first event), the samples as counters.
std::string chrome_trace(const std::vector<ProfileEvent>& events,
                         const std::vector<StepSample>& samples);

}  // namespace kha
