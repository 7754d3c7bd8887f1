#include <nlohmann/json.hpp>

#include "train/profile/step_profile.h"

namespace kha {
namespace {

using Json = nlohmann::ordered_json;

const char* category(ProfileEvent::Kind kind) {
  switch (kind) {
    case ProfileEvent::Kind::part:
      return "part";
    case ProfileEvent::Kind::backward_node:
      return "backward";
    default:
      return "operator";
  }
}

Json counters(const StepSample& sample, double time) {
  return {{"name", "memory"},
          {"ph", "C"},
          {"ts", time},
          {"pid", 1},
          {"args",
           {{"bytes in use", sample.memory.bytes_in_use},
            {"bytes held", sample.memory.bytes_held},
            {"minor faults", sample.faults}}}};
}

}  // namespace

std::string chrome_trace(const std::vector<ProfileEvent>& events,
                         const std::vector<StepSample>& samples) {
  const std::int64_t origin = events.empty() ? 0 : events.front().begin;
  const auto microseconds = [&](std::int64_t time) {
    return 1e-3 * static_cast<double>(time - origin);
  };
  Json list = Json::array();
  list.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", "kha train"}}}});
  for (const auto& e : events) {
    if (e.end == 0) continue;  // still open when recording stopped
    list.push_back({{"name", e.name},
                    {"cat", category(e.kind)},
                    {"ph", "X"},
                    {"ts", microseconds(e.begin)},
                    {"dur", 1e-3 * static_cast<double>(e.end - e.begin)},
                    {"pid", 1},
                    {"tid", e.thread}});
  }
  for (const auto& sample : samples) list.push_back(counters(sample, microseconds(sample.time)));
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(list)}}.dump() + "\n";
}

}  // namespace kha
