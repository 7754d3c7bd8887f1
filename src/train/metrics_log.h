// metrics.jsonl: one JSON object a line, the truth about a run.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace kha {

class MetricsLog {
 public:
  // Opens RUN/metrics.jsonl to continue behind `step`: lines of later steps (written after the
  // checkpoint that the run goes on from) are moved to RUN/metrics.after-step-N.jsonl, so that the
  // step column rises strictly. A half line that a kill left is dropped.
  MetricsLog(const std::filesystem::path& run_folder, int64_t step);

  // Appends one line; the object carries "step".
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace kha
