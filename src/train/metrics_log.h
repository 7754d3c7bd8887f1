// metrics.jsonl: one JSON object a line, the truth about a run; and the same for TensorBoard.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kha/core/event_file.h"

namespace kha {

class MetricsLog {
 public:
  // Opens RUN/metrics.jsonl to continue behind `step`: lines of later steps (written after the
  // checkpoint that the run goes on from) are moved to RUN/metrics.after-step-N.jsonl, so that the
  // step column rises strictly. A half line that a kill left is dropped. With `events` the numbers
  // go to RUN/tb too, where no tag gets a step twice. Another `name` than metrics is another file.
  MetricsLog(const std::filesystem::path& run_folder, int64_t step, bool events = false,
             const std::string& name = "metrics");

  // Appends one line; the object carries "step".
  void write(const nlohmann::ordered_json& line);

 private:
  void write_event(const nlohmann::ordered_json& line);

  std::filesystem::path path_;
  std::filesystem::path events_folder_;  // empty: no events
  int64_t first_step_;                   // of those that this log writes
  std::ofstream file_;
  std::map<std::string, int64_t> last_step_;  // of each tag
  std::optional<EventFile> events_;           // made with the first event
};

}  // namespace kha
