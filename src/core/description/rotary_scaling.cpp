#include "kha/core/rotary_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kha {
namespace {

constexpr double turn = 2 * std::numbers::pi;

// Of the frequency with this wavelength, in positions.
double llama3_multiplier(const RotaryScaling& s, double wavelength) {
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  if (wavelength < original / s.high_freq_factor) return 1;
  if (wavelength > original / s.low_freq_factor) return 1 / s.factor;
  const double kept =
      (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - kept) / s.factor + kept;
}

// The channel whose frequency turns so often over the original length.
double yarn_channel(const RotaryScaling& s, double rotations, double theta, double width) {
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  return width * std::log(original / (rotations * turn)) / (2 * std::log(theta));
}

// Frequencies up to the first channel are kept, those behind the second stretched.
struct Blend {
  double first, last;

  double stretched(double channel) const {
    return std::clamp((channel - first) / (last - first), 0.0, 1.0);
  }
};

Blend yarn_blend(const RotaryScaling& s, double theta, double width) {
  double first = yarn_channel(s, s.beta_fast, theta, width);
  double last = yarn_channel(s, s.beta_slow, theta, width);
  if (s.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, width - 1);
  return {first, first == last ? last + 1e-3 : last};
}

}  // namespace

std::vector<double> frequency_multipliers(const RotaryScaling& s, double theta, int64_t width) {
  if (s.kind == "default") return {};
  std::vector<double> list(static_cast<size_t>(width / 2), 1 / s.factor);  // linear
  const auto w = static_cast<double>(width);
  for (int64_t i = 0; i < width / 2; ++i) {
    if (s.kind == "llama3") {
      list[i] = llama3_multiplier(s, turn * std::pow(theta, 2.0 * static_cast<double>(i) / w));
    } else if (s.kind == "yarn") {
      const double share = yarn_blend(s, theta, w).stretched(static_cast<double>(i));
      list[i] = share / s.factor + (1 - share);
    }
  }
  return list;
}

double rotary_amplitude(const RotaryScaling& s) {
  if (s.kind != "yarn") return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  return s.factor <= 1 ? 1 : 0.1 * std::log(s.factor) + 1;
}

}  // namespace kha
