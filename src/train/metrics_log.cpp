#include "train/metrics_log.h"

#include <cmath>
#include <string>

#include "kha/core/atomic_file.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;
using Scalars = std::vector<std::pair<std::string, double>>;

// The finite numbers of a line; those of an inner object as NAME/KEY. "run/..." are facts about a
// process, not a curve.
Scalars scalars_of(const Json& line) {
  Scalars scalars;
  const auto add = [&](const std::string& tag, const Json& value) {
    if (value.is_number() && std::isfinite(value.get<double>())) scalars.emplace_back(tag, value);
  };
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || key.starts_with("run/")) continue;
    add(key, value);
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.items()) add(key + "/" + inner, number);
  }
  return scalars;
}

struct Cut {
  std::string kept, later;
  std::map<std::string, int64_t> last_step;  // of each tag that was kept
};

Cut cut_at_step(const std::filesystem::path& path, int64_t step) {
  std::ifstream file(path);
  Cut cut;
  for (std::string line; std::getline(file, line);) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number()) continue;
    const int64_t at = json["step"];
    (at <= step ? cut.kept : cut.later) += line + "\n";
    if (at > step) continue;
    for (const auto& [tag, value] : scalars_of(json)) cut.last_step[tag] = at;
  }
  return cut;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_folder, int64_t step, bool events,
                       const std::string& name)
    : path_(run_folder / (name + ".jsonl")),
      events_folder_(events ? run_folder / "tb" : std::filesystem::path()),
      first_step_(step + 1) {
  if (std::filesystem::exists(path_)) {
    Cut cut = cut_at_step(path_, step);
    last_step_ = std::move(cut.last_step);
    if (!cut.later.empty()) {
      const auto aside = run_folder / (name + ".after-step-" + std::to_string(step) + ".jsonl");
      std::ofstream(aside, std::ios::app) << cut.later;
    }
    write_file_atomically(path_, cut.kept);
  }
  file_.open(path_, std::ios::app);
}

// A tag that has this step already (the tokens of a validation stand in the training line too) is
// left out: a curve that goes back is drawn twice.
void MetricsLog::write_event(const Json& line) {
  const int64_t step = line.at("step");
  Scalars fresh;
  for (const auto& [tag, value] : scalars_of(line)) {
    const auto [last, is_new] = last_step_.try_emplace(tag, step);
    if (!is_new && last->second >= step) continue;
    last->second = step;
    fresh.emplace_back(tag, value);
  }
  if (fresh.empty()) return;
  if (!events_) events_.emplace(events_folder_, first_step_);
  events_->write(step, fresh);
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
  if (!events_folder_.empty()) write_event(line);
}

}  // namespace kha
