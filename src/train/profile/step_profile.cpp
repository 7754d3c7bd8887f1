#include "train/profile/step_profile.h"

#include <fmt/format.h>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "memory/caching_allocator.h"

namespace kha {

StepProfile::StepProfile(std::int64_t first, std::int64_t steps, std::int64_t last)
    : begin_(first + warm_up), end_(first + warm_up + steps) {
  if (end_ <= last) return;
  fail({.what = "the run has too few steps left to profile",
        .where = "--profile",
        .expected = fmt::format("{}: {} to warm up, {} to record", warm_up + steps, warm_up, steps),
        .found = fmt::format("{} of {} left", last - first, last),
        .next = fmt::format("--set train.steps={}, or fewer --profile-steps", end_)});
}

void StepProfile::before_step(std::int64_t done) {
  if (done != begin_) return;
  memory_before_ = arena_counts();
  recorder_.start();
}

bool StepProfile::after_step(const StepSample& sample) {
  if (sample.step <= begin_ || sample.step > end_) return false;
  samples_.push_back(sample);
  if (sample.step < end_) return false;
  recorder_.stop();
  return true;
}

std::string StepProfile::write(const std::filesystem::path& run_folder) const {
  const auto trace = run_folder / "trace.json", table = run_folder / "profile.txt";
  const std::string text = profile_text(break_down(recorder_.events()), samples_, memory_before_);
  write_file_atomically(trace, chrome_trace(recorder_.events(), samples_));
  write_file_atomically(table, text);
  return fmt::format(
      "{}\nprofile: {}   trace: {}\nnext: open the trace in chrome://tracing or at "
      "https://ui.perfetto.dev (Open trace file)",
      text, table.string(), trace.string());
}

}  // namespace kha
