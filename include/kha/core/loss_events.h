// Loss spikes as events: a rise above the median of the steps before it that stands out from their
// scatter. Medians do not move with the spikes that they are to find, so a run that falls steeply,
// or spikes often, is judged like a quiet one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace kha {

// The residual of a step is its loss less the median of the window before it; the scale is 1.4826
// times the median absolute deviation from that median (the standard deviation of normal noise).
struct EventRule {
  int64_t window = 200;  // steps before the judged one
  int64_t least = 50;    // nothing is judged before so many are there
  double floor = 0.05;   // nats: a residual up to this is never an event
  double scales = 8;     // nor is one up to this many scales
  int64_t merge = 10;    // steps: exceedances no further apart than this are one event
};

struct LossEvent {
  int64_t first = 0;  // step of the first exceedance
  int64_t last = 0;   // of the last
  int64_t peak = 0;   // of the largest residual
  double height = 0;  // that residual in nats; infinite where a loss was not finite
  // Steps from `first` until the loss is within one scale of the median, both as they stood before
  // the event; nothing where the series ends before that.
  std::optional<int64_t> recovery = {};
  double loss_before = 0;  // that median

  bool operator==(const LossEvent&) const = default;
};

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

class LossEventFinder {
 public:
  explicit LossEventFinder(EventRule rule = {}) : rule_(rule) {}

  // Steps rise strictly. A loss that is not finite always exceeds, and enters no window.
  void add(LossPoint point);

  const std::vector<LossEvent>& events() const { return events_; }
  // Of steps behind `step`: events that begin there, and steps that could have begun one.
  int64_t events_after(int64_t step) const;
  int64_t judged_after(int64_t step) const;

 private:
  struct Level {
    double median = 0, scale = 0;
  };
  std::optional<Level> level() const;
  void exceed(LossPoint point, double residual, const Level& level);
  void watch_recovery(LossPoint point);

  EventRule rule_;
  std::deque<double> window_;
  std::vector<LossEvent> events_;
  std::vector<double> scales_;  // of each event, before it
  std::vector<int64_t> judged_;
};

LossEventFinder find_loss_events(std::span<const LossPoint> series, const EventRule& rule = {});

// Over the events of finite height and with a known recovery; 0 where there is none.
double mean_height(std::span<const LossEvent> events);
double mean_recovery(std::span<const LossEvent> events);

}  // namespace kha
