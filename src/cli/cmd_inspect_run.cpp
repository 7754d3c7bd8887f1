// kha inspect run: what runs came to and how often their losses spiked, from what they wrote.
#include "cli/cmd_inspect_run.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/inspect/json_lines.h"
#include "kha/core/exact_test.h"
#include "kha/core/run_config.h"
#include "kha/core/run_record.h"
#include "kha/core/schedule.h"

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> runs;
  bool json = false;
};

struct RunReport {
  fs::path folder;
  std::optional<RunConfig> config;  // nothing where the run has no config.toml
  Json last;                        // the last value of every key that the run logged
  StepSeries series;
  SpikeFigures spikes;
  std::vector<SpikeEntry> entries;
};

Json last_values(const fs::path& folder) {
  Json last = Json::object();
  const fs::path metrics = folder / "metrics.jsonl";
  if (!fs::exists(metrics)) return last;
  for_each_json_line(metrics, [&](const nlohmann::json& line) {
    for (const auto& [key, value] : line.items()) {
      if (!key.starts_with("spike/")) last[key] = value;
    }
  });
  return last;
}

RunReport read_report(const fs::path& folder) {
  RunReport report{.folder = folder,
                   .config = {},
                   .last = {},
                   .series = read_step_series(folder),
                   .spikes = {},
                   .entries = read_spike_entries(folder)};
  report.last = last_values(folder);
  if (fs::exists(folder / "config.toml")) {
    report.config = read_run_config(folder / "config.toml", {});
  }
  const int64_t warmup =
      report.config ? warmup_steps(report.config->schedule, report.config->train.steps) : 0;
  report.spikes = watch_spikes(report.series.steps).figures(warmup);
  return report;
}

Json facts_json(const RunReport& r) {
  Json facts{{"step", r.series.steps.back().step}};
  for (const char* key : {"tokens", "train/loss", "val/loss", "val/bits_per_byte", "tps",
                          "run/command", "run/commit", "run/cpu"}) {
    if (r.last.contains(key)) facts[key] = r.last[key];
  }
  if (!r.config) return facts;
  facts["steps"] = r.config->train.steps;
  facts["setting"] = setting_name(r.config->model.knocks);
  facts["attention"] = r.config->model.attention;
  facts["seed"] = r.config->run.seed;
  facts["lr"] = r.config->optimizer.lr;
  facts["policy"] = r.config->train.spike;
  return facts;
}

Json to_json(const RunReport& r) {
  Json actions = Json::array();
  for (const SpikeEntry& e : r.entries) {
    actions.push_back(
        {{"action", e.action}, {"at", e.at}, {"step", e.step}, {"left_out", e.left_out}});
  }
  return {{"run", r.folder.string()},
          {"facts", facts_json(r)},
          {"series",
           {{"file", r.series.file.filename().string()},
            {"steps", r.series.steps.size()},
            {"stride", r.series.stride()}}},
          {"spikes", Json::parse(to_json(r.spikes))},
          {"actions", actions}};
}

// The p-value of equal frequency, where both runs were judged at all.
std::optional<double> test_of(const RunReport& one, const RunReport& other) {
  const SpikeFigures &a = one.spikes, &b = other.spikes;
  if (a.steps_after_warmup == 0 || b.steps_after_warmup == 0) return {};
  return exact_test(a.events_after_warmup, b.events_after_warmup, a.steps_after_warmup,
                    b.steps_after_warmup);
}

Json to_json(const std::vector<RunReport>& reports) {
  Json runs = Json::array(), tests = Json::array();
  for (const RunReport& report : reports) {
    runs.push_back(to_json(report));
    if (&report == &reports.front()) continue;
    const auto p = test_of(report, reports.front());
    tests.push_back({{"run", report.folder.string()},
                     {"against", reports.front().folder.string()},
                     {"p", p ? Json(*p) : Json()}});
  }
  return {{"runs", runs}, {"tests", tests}};
}

void print_line(const char* label, const std::string& text) {
  fmt::print("{:<15}{}\n", label, text);
}

std::string number_text(const Json& last, const char* key, const char* format) {
  const auto value = last.find(key);
  if (value == last.end() || !value->is_number()) return "not known";
  return fmt::format(fmt::runtime(format), value->get<double>());
}

void print_config(const RunReport& r) {
  if (!r.config) return print_line("settings", "not known: there is no config.toml");
  const RunConfig& c = *r.config;
  const ModelConfig& m = c.model;
  print_line("model",
             fmt::format("{} on {}: {} layers, width {}, {} query and {} KV heads of {}",
                         setting_name(m.knocks), m.attention, m.num_hidden_layers, m.hidden_size,
                         m.num_attention_heads, m.num_key_value_heads, m.head_dim));
  print_line(
      "training",
      fmt::format("step {} of {}, {} sequences of {} a step, seed {}", r.series.steps.back().step,
                  c.train.steps, c.train.batch * c.train.accumulate, c.train.context, c.run.seed));
  print_line("rate", fmt::format("{}, {}, warm-up {} steps, decay {}, clip {}", c.optimizer.lr,
                                 c.schedule.kind, r.spikes.warmup, c.optimizer.weight_decay,
                                 c.optimizer.clip));
}

void print_facts(const RunReport& r) {
  print_line("run", r.folder.string());
  print_config(r);
  print_line("loss", fmt::format("training {}, validation {} nats a token, {} bits a byte",
                                 number_text(r.last, "train/loss", "{:.4f}"),
                                 number_text(r.last, "val/loss", "{:.4f}"),
                                 number_text(r.last, "val/bits_per_byte", "{:.4f}")));
  print_line("speed", number_text(r.last, "tps", "{:.0f} tokens/s at the last logged step"));
  for (const char* key : {"run/command", "run/commit", "run/cpu"}) {
    if (r.last.contains(key) && r.last[key].is_string())
      print_line(key + 4, r.last[key].get<std::string>());
  }
}

std::string entry_text(const SpikeEntry& e) {
  if (e.action == "back") {
    return fmt::format("step {}: went back to step {}; the data is {} batches ahead since", e.at,
                       e.step, e.left_out);
  }
  if (e.action == "stop") return fmt::format("step {}: the run stopped", e.at);
  return fmt::format("step {}: {}", e.at, e.action == "skip" ? "its batch was left out" : "noted");
}

void print_spikes(const RunReport& r) {
  const int64_t stride = r.series.stride();
  const std::string file = r.series.file.filename().string();
  fmt::print("\n");
  if (stride > 1) {
    print_line("spikes", fmt::format("of every {}th step, which is all that {} has: windows count "
                                     "logged steps, and what lay between is not seen",
                                     stride, file));
  } else {
    print_line("spikes", "of every step, from " + file);
  }
  fmt::print("{}", to_text(r.spikes));
  for (const SpikeEntry& entry : r.entries) print_line("train.spike", entry_text(entry));
}

void print_test(const RunReport& report, const RunReport& first) {
  const auto p = test_of(report, first);
  const SpikeFigures &a = report.spikes, &b = first.spikes;
  fmt::print("{}: {} events in {} steps against {} in {} of {}: {}\n", report.folder.string(),
             a.events_after_warmup, a.steps_after_warmup, b.events_after_warmup,
             b.steps_after_warmup, first.folder.string(),
             p ? fmt::format("exact test, two-sided, p = {:.3g}", *p) : "too few steps to judge");
}

int run(const Options& options) {
  std::vector<RunReport> reports;
  for (const std::string& folder : options.runs) reports.push_back(read_report(folder));
  if (options.json) {
    fmt::print("{}\n", to_json(reports).dump(2));
    return 0;
  }
  for (const RunReport& report : reports) {
    if (&report != &reports.front()) fmt::print("\n");
    print_facts(report);
    print_spikes(report);
  }
  if (reports.size() > 1) fmt::print("\n");
  for (size_t i = 1; i < reports.size(); ++i) print_test(reports[i], reports.front());
  return 0;
}

}  // namespace

Command inspect_run_command() {
  return {"run", "what runs came to, and their loss spikes", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            app.add_option("RUN", options->runs,
                           "folders of runs; the first is what the others are tested against")
                ->required();
            add_json_option(app, options->json);
            return [options] { return run(*options); };
          }};
}

}  // namespace kha::cli
