#include "kha/core/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kha {

int64_t warmup_steps(const ScheduleOptions& schedule, int64_t steps) {
  return schedule.warmup_steps >= 0 ? schedule.warmup_steps : steps / 20;
}

double schedule_factor(const ScheduleOptions& schedule, int64_t step, int64_t steps) {
  const int64_t warmup = warmup_steps(schedule, steps);
  if (step <= warmup) return static_cast<double>(step) / static_cast<double>(warmup);
  if (schedule.kind == "constant") return 1.0;
  const bool cosine = schedule.kind == "cosine";
  const double share = schedule.decay_share * static_cast<double>(steps);
  const double begin =
      cosine ? static_cast<double>(warmup)
             : std::max(static_cast<double>(warmup), static_cast<double>(steps) - share);
  const double length = static_cast<double>(steps) - begin;
  const double progress =
      length > 0 ? std::clamp((static_cast<double>(step) - begin) / length, 0.0, 1.0) : 1.0;
  const double fall = cosine ? 0.5 * (1 + std::cos(std::numbers::pi * progress)) : 1 - progress;
  return schedule.floor + (1 - schedule.floor) * fall;
}

}  // namespace kha
