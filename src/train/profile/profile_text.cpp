#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kha/core/progress.h"
#include "train/profile/step_profile.h"

namespace kha {
namespace {

// In the order of a step; parts that are not named here follow.
constexpr std::array order{"data",
                           "embedding",
                           "attention projections",
                           "knock maps",
                           "attention core",
                           "feed-forward",
                           "norms, rotation, residuals",
                           "head and loss",
                           between_nodes,
                           "norm and clipping",
                           "optimiser",
                           "rest of the step"};

std::vector<std::string> ordered_names(const Breakdown& b) {
  std::vector<std::string> names;
  for (const char* name : order) {
    if (b.parts.count(name)) names.emplace_back(name);
  }
  for (const auto& [name, time] : b.parts) {
    if (std::find(order.begin(), order.end(), name) == order.end()) names.push_back(name);
  }
  return names;
}

std::string milliseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.1f}", 1e3 * seconds) : "-";
}

std::string parts_text(const Breakdown& b, double steps, double wall) {
  std::string text =
      fmt::format("{:<30}{:>12}{:>12}{:>9}\n", "part, ms a step", "forward", "backward", "share");
  PartTime all;
  for (const std::string& name : ordered_names(b)) {
    const PartTime& t = b.parts.at(name);
    all.forward += t.forward;
    all.backward += t.backward;
    text += fmt::format("{:<30}{:>12}{:>12}{:>7.1f} %\n", name, milliseconds(t.forward / steps),
                        milliseconds(t.backward / steps), 100 * (t.forward + t.backward) / wall);
  }
  return text + fmt::format(
                    "{:<30}{:>12}{:>12}{:>7.1f} % of {:.1f} ms\n"
                    "(the head makes its gradient with its loss: both are forward)\n",
                    "all", milliseconds(all.forward / steps), milliseconds(all.backward / steps),
                    100 * (all.forward + all.backward) / wall, 1e3 * wall / steps);
}

std::string operators_text(const Breakdown& b, double steps, double wall) {
  std::string text =
      fmt::format("{:<60}{:>8}{:>12}{:>9}\n", "operator, own time", "calls", "ms a step", "share");
  for (std::size_t i = 0; i < std::min<std::size_t>(20, b.operators.size()); ++i) {
    const OperatorTime& op = b.operators[i];
    text += fmt::format("{:<60}{:>8.0f}{:>12.1f}{:>7.1f} %\n", op.name.substr(0, 59),
                        static_cast<double>(op.calls) / steps, 1e3 * op.own / steps,
                        100 * op.own / wall);
  }
  return text;
}

std::string memory_text(const std::vector<StepSample>& samples, const ArenaCounts& before) {
  std::string faults;
  for (const auto& s : samples) faults += fmt::format(" {}", s.faults);
  const ArenaCounts& m = samples.back().memory;
  const auto blocks = m.requests - before.requests;
  return fmt::format(
      "minor faults of each step:{}\nallocator: {} in use, {} at most, {} held; {:.0f} large "
      "blocks "
      "a step, {} of {} from kept memory, {} requests to the system\n",
      faults, bytes_text(static_cast<double>(m.bytes_in_use)),
      bytes_text(static_cast<double>(m.peak_in_use)), bytes_text(static_cast<double>(m.bytes_held)),
      static_cast<double>(blocks) / static_cast<double>(samples.size()), m.hits - before.hits,
      blocks, m.system_requests - before.system_requests);
}

}  // namespace

std::string profile_text(const Breakdown& breakdown, const std::vector<StepSample>& samples,
                         const ArenaCounts& before) {
  double wall = 0;
  for (const auto& sample : samples) wall += sample.seconds;
  const auto steps = static_cast<double>(samples.size());
  return fmt::format("profile of steps {} to {}, recording included\n\n{}\n{}\n{}",
                     samples.front().step, samples.back().step, parts_text(breakdown, steps, wall),
                     operators_text(breakdown, steps, wall), memory_text(samples, before));
}

}  // namespace kha
