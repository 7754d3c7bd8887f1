// RUN/summary.json: what a finished run came to; comparisons read it instead of measuring again.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "kha/core/spike_watch.h"
#include "train/evaluate.h"
#include "train/session.h"

namespace kha {

struct RunSummary {
  std::optional<Evaluation> validation = {};  // by document; nothing without a held-out split
  double tokens_per_second = 0;               // over all steps, evaluation and saving left out
  double mfu = 0;                             // share of the ceiling that this is; 0: not known
  int64_t peak_bytes = 0;                     // resident, of the process that made the last step
  SpikeFigures spikes = {};                   // written only: steps.jsonl has what they come from
};

// The summary, when it is of this step, this text and this way of evaluating; nothing otherwise.
std::optional<RunSummary> read_run_summary(const std::filesystem::path& run_folder,
                                           const Session& session);

// Of each document of a split its index, the sum of its losses in nats and its targets.
nlohmann::ordered_json documents_to_json(const DocumentLosses& documents);

void write_run_summary(const std::filesystem::path& run_folder, const Session& session,
                       const RunSummary& summary);

}  // namespace kha
