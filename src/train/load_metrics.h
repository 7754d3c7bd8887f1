// The load of the experts in the logs: a few figures a line, all counts in a file of their own.
#pragma once

#include <nlohmann/json.hpp>

#include "train/metrics_log.h"
#include "train/router_step.h"
#include "train/training_state.h"

namespace kha {

// Steps between the lines of RUN/experts.jsonl.
constexpr int64_t load_every = 10;

// moe/load_max, moe/load_min, moe/dead, moe/max_vio (LoadFigures); with `all` moe/load_entropy too.
void add_load_metrics(const ExpertCounts& counts, bool all, nlohmann::ordered_json& line);

// moe/max_vio_global of a whole validation; with `all` that of each layer,
// moe/max_vio_global_by_layer.
void add_global_load_metrics(const ExpertCounts& counts, bool all, nlohmann::ordered_json& line);

// {"step", "tokens", "counts": {layer: [how often each expert was chosen]}}.
void write_load(MetricsLog& log, const TrainingState& state, const ExpertCounts& counts);

}  // namespace kha
