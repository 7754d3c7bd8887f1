#include "kha/core/deviation_rule.h"

#include <algorithm>
#include <cmath>

namespace kha {
namespace {

double percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

// The sums are formed anew at each value: running ones would drift, and a thousand additions are
// nothing beside a step.
Standing DeviationCounter::judge(double value) const {
  if (static_cast<int64_t>(window_.size()) < rule_.window) {
    return {.judged = false, .spike = !std::isfinite(value)};
  }
  const auto n = static_cast<double>(window_.size());
  double sum = 0, squares = 0;
  for (const double each : window_) sum += each;
  const double mean = sum / n;
  for (const double each : window_) squares += (each - mean) * (each - mean);
  Standing standing{.judged = true, .mean = mean, .deviation = std::sqrt(squares / n)};
  const double away = rule_.two_sided ? std::abs(value - mean) : value - mean;
  const double limit = rule_.deviations * standing.deviation;
  const bool beyond = rule_.at_least ? away >= limit && away > 0 : away > limit;
  standing.spike = beyond || !std::isfinite(value);
  return standing;
}

Standing DeviationCounter::add(double value) {
  const Standing standing = judge(value);
  if (standing.spike) spikes_.push_back(values_);
  judged_ += standing.judged;
  judged_spikes_ += standing.judged && standing.spike;
  ++values_;
  if (!std::isfinite(value)) return standing;
  window_.push_back(value);
  if (static_cast<int64_t>(window_.size()) > rule_.window) window_.pop_front();
  return standing;
}

double DeviationCounter::score() const { return percent(judged_spikes_, judged_); }
double DeviationCounter::rate() const { return percent(spikes(), values_); }

double DeviationCounter::recent_rate(int64_t recent) const {
  const int64_t first = std::max<int64_t>(0, values_ - recent);
  const auto begin = std::lower_bound(spikes_.begin(), spikes_.end(), first);
  return percent(spikes_.end() - begin, values_ - first);
}

DeviationCounter count_deviations(const DeviationRule& rule, std::span<const double> series) {
  DeviationCounter counter(rule);
  for (const double value : series) counter.add(value);
  return counter;
}

}  // namespace kha
