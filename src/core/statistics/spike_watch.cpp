#include "kha/core/spike_watch.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kha/core/exact_test.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

DeviationFigures figures_of(const DeviationCounter& olmo2, const DeviationCounter& core) {
  return {.values = core.values(),
          .olmo2_judged = olmo2.judged(),
          .olmo2_score = olmo2.score(),
          .olmo2_spikes = olmo2.spikes(),
          .olmo_core_rate = core.rate(),
          .olmo_core_recent = core.recent_rate(olmo_core_recent),
          .olmo_core_spikes = core.spikes()};
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json to_json(const DeviationFigures& f) {
  return {{"values", f.values},
          {"olmo2_judged", f.olmo2_judged},
          {"olmo2_spikes", f.olmo2_spikes},
          {"olmo2_score", f.olmo2_judged > 0 ? Json(f.olmo2_score) : Json()},
          {"olmo_core_spikes", f.olmo_core_spikes},
          {"olmo_core_rate", f.olmo_core_rate},
          {"olmo_core_recent_rate", f.olmo_core_recent}};
}

Json to_json(const LossEvent& e) {
  return {{"first", e.first},
          {"last", e.last},
          {"peak", e.peak},
          {"height", number(e.height)},
          {"loss_before", e.loss_before},
          {"recovery", e.recovery ? Json(*e.recovery) : Json()}};
}

std::string score_text(const std::string& name, const DeviationFigures& f) {
  if (f.values == 0) return fmt::format("{:<15}not logged\n", name);
  const std::string olmo2 =
      f.olmo2_judged > 0
          ? fmt::format("{:.3f} % ({} of {} judged)", f.olmo2_score, f.olmo2_spikes, f.olmo2_judged)
          : fmt::format("not defined ({} values, it needs more than {})", f.values,
                        olmo2_rule.window);
  return fmt::format("{:<15}OLMo 2 spike score {}; OLMo-core rate {:.3f} % ({} of {})\n", name,
                     olmo2, f.olmo_core_rate, f.olmo_core_spikes, f.values);
}

std::string rate_text(const SpikeFigures& f) {
  if (f.steps_after_warmup == 0) return "not judged: too few steps behind the warm-up\n";
  std::string text =
      fmt::format("{:.3g} in 1,000 steps ({} in {} judged behind the warm-up of {})\n",
                  f.per_thousand(), f.events_after_warmup, f.steps_after_warmup, f.warmup);
  if (f.events_after_warmup == 0) {
    text.pop_back();
    text += fmt::format("; 95 % bound {:.3g} in 1,000\n",
                        1000 * bound_without_events(f.steps_after_warmup));
  }
  return text;
}

std::string event_text(const LossEvent& e) {
  const std::string recovery =
      e.recovery ? fmt::format("back within {} steps", *e.recovery) : "not back at the end";
  const std::string steps = e.first == e.last ? fmt::format("step {}", e.first)
                                              : fmt::format("steps {} to {}", e.first, e.last);
  return fmt::format("  {}: {} nats above {:.4f}, {}\n", steps,
                     std::isfinite(e.height) ? fmt::format("{:.4f}", e.height) : "not finite",
                     e.loss_before, recovery);
}

}  // namespace

double SpikeFigures::per_thousand() const {
  if (steps_after_warmup == 0) return 0;
  return 1000.0 * static_cast<double>(events_after_warmup) /
         static_cast<double>(steps_after_warmup);
}

SpikeVerdict SpikeWatch::judge(const StepRecord& record) const {
  SpikeVerdict verdict{.loss = loss_core_.judge(record.loss)};
  if (record.grad_norm) verdict.grad_norm = norm_core_.judge(*record.grad_norm);
  return verdict;
}

SpikeVerdict SpikeWatch::add(const StepRecord& record) {
  const SpikeVerdict verdict = judge(record);
  const bool finite =
      std::isfinite(record.loss) && (!record.grad_norm || std::isfinite(*record.grad_norm));
  not_finite_ = finite ? 0 : not_finite_ + 1;
  loss_olmo2_.add(record.loss);
  loss_core_.add(record.loss);
  events_.add({record.step, record.loss});
  if (record.grad_norm) {
    norm_olmo2_.add(*record.grad_norm);
    norm_core_.add(*record.grad_norm);
  }
  return verdict;
}

SpikeFigures SpikeWatch::figures(int64_t warmup) const {
  return {.loss = figures_of(loss_olmo2_, loss_core_),
          .grad_norm = figures_of(norm_olmo2_, norm_core_),
          .events = events_.events(),
          .warmup = warmup,
          .events_after_warmup = events_.events_after(warmup),
          .steps_after_warmup = events_.judged_after(warmup)};
}

SpikeWatch watch_spikes(std::span<const StepRecord> series) {
  SpikeWatch watch;
  for (const StepRecord& record : series) watch.add(record);
  return watch;
}

std::string to_json(const SpikeFigures& f) {
  Json events = Json::array();
  for (const LossEvent& event : f.events) events.push_back(to_json(event));
  const Json json{{"loss", to_json(f.loss)},
                  {"grad_norm", to_json(f.grad_norm)},
                  {"warmup_steps", f.warmup},
                  {"events_after_warmup", f.events_after_warmup},
                  {"steps_after_warmup", f.steps_after_warmup},
                  {"per_thousand", f.per_thousand()},
                  {"mean_height", mean_height(f.events)},
                  {"mean_recovery", mean_recovery(f.events)},
                  {"events", events}};
  return json.dump();
}

std::string to_text(const SpikeFigures& f) {
  std::string text = score_text("loss", f.loss) + score_text("gradient norm", f.grad_norm);
  text += fmt::format("{:<15}{}", "events", rate_text(f));
  for (const LossEvent& event : f.events) text += event_text(event);
  return text;
}

}  // namespace kha
