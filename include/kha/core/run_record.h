// What a run wrote about its steps: the loss and gradient norm of each, and what its spikes led to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kha/core/spike_watch.h"

namespace kha {

// Losses of a run by rising step.
struct StepSeries {
  std::filesystem::path file;  // where they stand: steps.jsonl, or metrics.jsonl of an older run
  std::vector<StepRecord> steps;
  // Steps from one record to the next, the commonest; 1: every step, as the definitions ask for.
  int64_t stride() const;
};

// RUN/steps.jsonl has every step. A run of an older kha has its logged steps in metrics.jsonl. The
// last line may be cut off, as of a run that is writing. Errors: neither file, a line that is no
// JSON object, steps that do not rise, no loss at all.
StepSeries read_step_series(const std::filesystem::path& run_folder);

// Of steps.jsonl alone; empty where there is none. Errors: as above.
std::vector<StepRecord> read_every_step(const std::filesystem::path& run_folder);

// One line of metrics.jsonl that carries `spike/action`.
struct SpikeEntry {
  int64_t step = 0;    // at which the line stands; of `back` the one that the run went back to
  std::string action;  // note | skip | back | stop
  int64_t at = 0;      // the step whose batch it was
  // Of `back`: by how many batches the data is ahead of the step from here on, all returns counted.
  int64_t left_out = 0;
  // The learning rate of that step; 0 where the line does not say it.
  double lr = 0;
};

// In the order of the file; empty where there is no file. Errors: as above.
std::vector<SpikeEntry> read_spike_entries(const std::filesystem::path& run_folder);

// How many batches the data of a run that stands at `step` is ahead, by the last return to it; 0
// where there was none.
int64_t batches_left_out_at(const std::filesystem::path& run_folder, int64_t step);

// How often the run went back to each step, by the entries above. A return from a step whose
// learning rate was another than `rate` says now is of other settings and does not count.
std::map<int64_t, int64_t> returns_to(const std::filesystem::path& run_folder,
                                      const std::function<double(int64_t step)>& rate);

}  // namespace kha
