#include "train/metrics_log.h"

#include <string>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"

namespace kha {
namespace {

struct Cut {
  std::string kept, later;
};

Cut cut_at_step(const std::filesystem::path& path, int64_t step) {
  std::ifstream file(path);
  Cut cut;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number()) continue;
    (json["step"].get<int64_t>() <= step ? cut.kept : cut.later) += line + "\n";
  }
  return cut;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_folder, int64_t step)
    : path_(run_folder / "metrics.jsonl") {
  if (std::filesystem::exists(path_)) {
    const Cut cut = cut_at_step(path_, step);
    if (!cut.later.empty()) {
      const auto aside = run_folder / ("metrics.after-step-" + std::to_string(step) + ".jsonl");
      std::ofstream(aside, std::ios::app) << cut.later;
    }
    write_file_atomically(path_, cut.kept);
  }
  file_.open(path_, std::ios::app);
}

void MetricsLog::write(const nlohmann::ordered_json& line) {
  file_ << line.dump() << std::endl;  // a line is on its way before the next step begins
  if (!file_) {
    fail({.what = "cannot write the run's metrics",
          .where = path_.string(),
          .cause = "the disk is full, or the folder became read-only",
          .next = "free space, then give the same command again: it continues from the last "
                  "checkpoint"});
  }
}

}  // namespace kha
