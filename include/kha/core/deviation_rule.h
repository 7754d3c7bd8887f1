// Published definitions of a spike: a value that lies many standard deviations away from the mean
// of those before it. One value at a time, or a whole series, which is the same.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace kha {

struct DeviationRule {
  int64_t window = 0;     // values before the judged one; nothing is judged before it is full
  double deviations = 0;  // population standard deviations of the window
  bool two_sided = false;
  bool at_least = false;  // the limit itself is a spike
};

// "Spike score" of OLMo 2 (arXiv 2501.00656): at least 7 deviations away from the rolling mean of
// the last 1,000 values.
inline constexpr DeviationRule olmo2_rule{1000, 7.0, true, true};
// Stability monitor of OLMo-core: above the mean of the previous 128 values by more than 6.
inline constexpr DeviationRule olmo_core_rule{128, 6.0, false, false};
// Over how many of the last values OLMo-core gives its second rate.
inline constexpr int64_t olmo_core_recent = 10000;

// Where a value stands against the window before it.
struct Standing {
  bool judged = false;  // the window is full
  bool spike = false;
  double mean = 0;
  double deviation = 0;  // standard, of the window
};

class DeviationCounter {
 public:
  explicit DeviationCounter(DeviationRule rule) : rule_(rule) {}

  // The next value, which is not taken in yet. One that is not finite is a spike, judged or not.
  Standing judge(double value) const;
  // Judges and takes it in. What is not finite counts, but does not enter the window.
  Standing add(double value);

  int64_t values() const { return values_; }
  int64_t judged() const { return judged_; }
  int64_t spikes() const { return static_cast<int64_t>(spikes_.size()); }
  // Judged spikes in per cent of the judged values; 0 where none was judged.
  double score() const;
  // Spikes in per cent of all values, and of the last `recent` of them.
  double rate() const;
  double recent_rate(int64_t recent) const;

 private:
  DeviationRule rule_;
  std::deque<double> window_;
  int64_t values_ = 0, judged_ = 0, judged_spikes_ = 0;
  std::vector<int64_t> spikes_;  // their places in the series, from 0
};

DeviationCounter count_deviations(const DeviationRule& rule, std::span<const double> series);

}  // namespace kha
