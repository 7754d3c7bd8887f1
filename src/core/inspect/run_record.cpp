#include "kha/core/run_record.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/inspect/json_lines.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using Json = nlohmann::json;

// JSON has no NaN: a value that was not finite is null.
double number_or_nan(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

int64_t integer(const Json& line, const char* key, int64_t otherwise) {
  const auto value = line.find(key);
  return value != line.end() && value->is_number_integer() ? value->get<int64_t>() : otherwise;
}

double real(const Json& line, const char* key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_number() ? value->get<double>() : 0;
}

int64_t step_of(const Json& line) { return integer(line, "step", -1); }

void append_step(StepSeries& series, const Json& line, const char* loss_key) {
  const auto loss = line.find(loss_key);
  const int64_t step = step_of(line);
  if (loss == line.end() || step < 0) return;
  if (!series.steps.empty() && step <= series.steps.back().step) {
    fail({.what = "the steps of the run do not rise",
          .where = series.file.string(),
          .expected = fmt::format("a step above {}", series.steps.back().step),
          .found = std::to_string(step),
          .cause = "the file was edited, or two runs wrote into one folder"});
  }
  StepRecord record{.step = step, .loss = number_or_nan(*loss)};
  const auto norm = line.find("grad_norm");
  if (norm != line.end()) record.grad_norm = number_or_nan(*norm);
  series.steps.push_back(record);
}

StepSeries read_series(const std::filesystem::path& file, const char* loss_key) {
  StepSeries series{.file = file, .steps = {}};
  for_each_json_line(file, [&](const Json& line) { append_step(series, line, loss_key); });
  return series;
}

}  // namespace

int64_t StepSeries::stride() const {
  std::map<int64_t, int64_t> counts;
  for (size_t i = 1; i < steps.size(); ++i) ++counts[steps[i].step - steps[i - 1].step];
  int64_t commonest = 1, most = 0;
  for (const auto& [stride, count] : counts) {
    if (count > most) commonest = stride;
    most = std::max(most, count);
  }
  return commonest;
}

StepSeries read_step_series(const std::filesystem::path& run_folder) {
  auto every = read_every_step(run_folder);
  if (!every.empty()) return {.file = run_folder / "steps.jsonl", .steps = std::move(every)};
  const auto metrics = run_folder / "metrics.jsonl";
  if (!std::filesystem::exists(metrics)) {
    const bool exists = std::filesystem::exists(run_folder);
    const bool comparison = std::filesystem::exists(run_folder / "arms");
    fail({.what = "there is no run here",
          .where = run_folder.string(),
          .expected = "a folder with metrics.jsonl",
          .found = comparison ? "a comparison"
                   : exists   ? "no such file"
                              : "no such folder",
          .next = comparison ? "name its arms: " + (run_folder / "arms").string() + "/*" : ""});
  }
  StepSeries series = read_series(metrics, "train/loss");
  if (series.steps.empty()) {
    fail({.what = "the run has logged no loss yet",
          .where = metrics.string(),
          .next = "let it reach its first log step"});
  }
  return series;
}

std::vector<StepRecord> read_every_step(const std::filesystem::path& run_folder) {
  const auto file = run_folder / "steps.jsonl";
  if (!std::filesystem::exists(file)) return {};
  return read_series(file, "loss").steps;
}

std::vector<SpikeEntry> read_spike_entries(const std::filesystem::path& run_folder) {
  std::vector<SpikeEntry> entries;
  const auto metrics = run_folder / "metrics.jsonl";
  if (!std::filesystem::exists(metrics)) return entries;
  for_each_json_line(metrics, [&](const Json& line) {
    if (!line.contains("spike/action") || !line["spike/action"].is_string()) return;
    entries.push_back({.step = step_of(line),
                       .action = line["spike/action"],
                       .at = integer(line, "spike/at", -1),
                       .left_out = integer(line, "spike/left_out", 0),
                       .lr = real(line, "spike/lr")});
  });
  return entries;
}

int64_t batches_left_out_at(const std::filesystem::path& run_folder, int64_t step) {
  int64_t left_out = 0;
  for (const SpikeEntry& entry : read_spike_entries(run_folder)) {
    if (entry.action == "back" && entry.step == step) left_out = entry.left_out;
  }
  return left_out;
}

std::map<int64_t, int64_t> returns_to(const std::filesystem::path& run_folder,
                                      const std::function<double(int64_t step)>& rate) {
  std::map<int64_t, int64_t> returns;
  for (const SpikeEntry& entry : read_spike_entries(run_folder)) {
    const bool of_these_settings =
        entry.lr == 0 || std::abs(entry.lr - rate(entry.at)) <= 1e-9 * entry.lr;
    if (entry.action == "back" && of_these_settings) ++returns[entry.step];
  }
  return returns;
}

}  // namespace kha
