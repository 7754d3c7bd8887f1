#include "kha/core/loss_events.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kha {
namespace {

constexpr double deviation_of_mad = 1.4826;  // normal noise: standard deviation over MAD

// The mean of the two middle values of an even number.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

std::optional<LossEventFinder::Level> LossEventFinder::level() const {
  if (static_cast<int64_t>(window_.size()) < rule_.least) return {};
  std::vector<double> values(window_.begin(), window_.end());
  const double median = median_of(values);
  for (double& value : values) value = std::abs(value - median);
  return Level{median, deviation_of_mad * median_of(std::move(values))};
}

void LossEventFinder::exceed(LossPoint point, double residual, const Level& level) {
  const bool same = !events_.empty() && point.step - events_.back().last <= rule_.merge;
  if (!same) {
    events_.push_back({.first = point.step,
                       .last = point.step,
                       .peak = point.step,
                       .height = residual,
                       .loss_before = level.median});
    scales_.push_back(level.scale);
    return;
  }
  LossEvent& event = events_.back();
  event.last = point.step;
  if (residual > event.height) {
    event.height = residual;
    event.peak = point.step;
  }
}

// A loss that came back and rose again within the merged event has not recovered: the last return
// counts.
void LossEventFinder::watch_recovery(LossPoint point) {
  if (events_.empty()) return;
  if (point.step == events_.back().last) events_.back().recovery.reset();
  // All that are still away: one that a second event overtook comes back with it.
  for (size_t i = events_.size(); i-- > 0 && !events_[i].recovery;) {
    LossEvent& event = events_[i];
    if (point.step == event.last || !(point.loss <= event.loss_before + scales_[i])) continue;
    event.recovery = point.step - event.first;
  }
}

void LossEventFinder::add(LossPoint point) {
  const auto before = level();
  const bool finite = std::isfinite(point.loss);
  const double residual = !finite  ? std::numeric_limits<double>::infinity()
                          : before ? point.loss - before->median
                                   : 0;
  if (before) judged_.push_back(point.step);
  if (!finite || (before && residual > std::max(rule_.floor, rule_.scales * before->scale))) {
    exceed(point, residual, before.value_or(Level{}));
  }
  watch_recovery(point);
  if (!finite) return;
  window_.push_back(point.loss);
  if (static_cast<int64_t>(window_.size()) > rule_.window) window_.pop_front();
}

int64_t LossEventFinder::events_after(int64_t step) const {
  return std::count_if(events_.begin(), events_.end(),
                       [&](const LossEvent& event) { return event.first > step; });
}

int64_t LossEventFinder::judged_after(int64_t step) const {
  return judged_.end() - std::upper_bound(judged_.begin(), judged_.end(), step);
}

LossEventFinder find_loss_events(std::span<const LossPoint> series, const EventRule& rule) {
  LossEventFinder finder(rule);
  for (const LossPoint& point : series) finder.add(point);
  return finder;
}

double mean_height(std::span<const LossEvent> events) {
  double sum = 0;
  int64_t count = 0;
  for (const LossEvent& event : events) {
    if (!std::isfinite(event.height)) continue;
    sum += event.height;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double mean_recovery(std::span<const LossEvent> events) {
  double sum = 0;
  int64_t count = 0;
  for (const LossEvent& event : events) {
    if (!event.recovery) continue;
    sum += static_cast<double>(*event.recovery);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace kha
