#include "train/spike_policy.h"

#include <fmt/format.h>

#include <cmath>

namespace kha {
namespace {

std::string in_words(const Standing& standing, const char* name, double value) {
  if (!std::isfinite(value)) return fmt::format("{} {}", name, value);
  return fmt::format("{} {:.4f} (mean {:.4f} and deviation {:.4f} of the {} steps before)", name,
                     value, standing.mean, standing.deviation, olmo_core_rule.window);
}

}  // namespace

SpikeAction parse_spike_policy(const std::string& name) {
  return name == "skip"   ? SpikeAction::skip
         : name == "back" ? SpikeAction::back
                          : SpikeAction::note;
}

std::string to_string(SpikeAction action) {
  static const char* const names[] = {"none", "note", "skip", "back", "stop"};
  return names[static_cast<size_t>(action)];
}

SpikeAction decide(SpikeAction policy, const SpikeVerdict& verdict, bool finite) {
  if (finite && !verdict.spike()) return SpikeAction::none;
  if (policy != SpikeAction::back) return policy;
  return !finite || verdict.loss.spike ? SpikeAction::back : SpikeAction::note;
}

std::string in_words(const SpikeVerdict& verdict, double loss, double grad_norm) {
  std::string text;
  if (verdict.loss.spike) text = in_words(verdict.loss, "loss", loss);
  if (!verdict.grad_norm.spike) return text;
  if (!text.empty()) text += ", ";
  return text + in_words(verdict.grad_norm, "gradient norm", grad_norm);
}

nlohmann::ordered_json spike_line(const TrainingState& state, SpikeAction action,
                                  const SpikedStep& step) {
  return {{"step", state.step},
          {"tokens", state.tokens},
          {"spike/action", to_string(action)},
          {"spike/at", step.at},
          {"spike/loss", step.loss},
          {"spike/grad_norm", step.grad_norm},
          {"spike/lr", step.lr},
          {"spike/left_out", state.batches_left_out}};
}

}  // namespace kha
