// The learning rate as a closed function of the step: nothing to save, nothing to advance twice.
#pragma once

#include <cstdint>

#include "kha/core/run_config.h"

namespace kha {

// The factor on the peak rate at step 1 .. steps: a linear warm-up that reaches 1 at its last step,
// then constant, cosine to `floor`, or (wsd) constant and linear to `floor` over the last share.
double schedule_factor(const ScheduleOptions& schedule, int64_t step, int64_t steps);

// schedule.warmup_steps, or 5 % of the steps where it is -1.
int64_t warmup_steps(const ScheduleOptions& schedule, int64_t steps);

}  // namespace kha
