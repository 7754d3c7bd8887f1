// The line files of a run: opened together, and cut together where it goes on from a checkpoint.
#pragma once

#include <filesystem>
#include <optional>

#include "train/metrics_log.h"

namespace kha {

struct RunLogs {
  // As MetricsLog: to continue behind `step`, later lines are moved aside.
  RunLogs(const std::filesystem::path& run_folder, int64_t step, bool events, bool experts)
      : metrics(run_folder, step, events),
        documents(run_folder, step, false, "documents"),
        steps(run_folder, step, false, "steps") {
    if (experts) loads.emplace(run_folder, step, false, "experts");
  }

  MetricsLog metrics;
  MetricsLog documents;             // each evaluation's losses by document
  MetricsLog steps;                 // loss and gradient norm of every step
  std::optional<MetricsLog> loads;  // of a model with experts: their counts by layer
};

}  // namespace kha
