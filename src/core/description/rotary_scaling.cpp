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

// What the base is multiplied with for a text of this length.
double dynamic_base(const RotaryScaling& s, double width, double length) {
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  return std::pow(s.factor * length / original - (s.factor - 1), width / (width - 2));
}

double yarn_scale(const RotaryScaling& s, double weight) {
  return s.factor <= 1 ? 1 : 0.1 * weight * std::log(s.factor) + 1;
}

}  // namespace

std::vector<double> frequency_multipliers(const RotaryScaling& s, double theta, int64_t width,
                                          int64_t length) {
  if (s.kind == "default") return {};
  const bool longer = length > s.original_max_position_embeddings;
  if (s.kind == "dynamic" && !longer) return {};
  std::vector<double> list(static_cast<size_t>(width / 2), 1 / s.factor);  // linear
  const auto w = static_cast<double>(width);
  for (int64_t i = 0; i < width / 2; ++i) {
    const auto channel = static_cast<double>(i);
    if (s.kind == "llama3") {
      list[i] = llama3_multiplier(s, turn * std::pow(theta, 2.0 * channel / w));
    } else if (s.kind == "yarn") {
      const double share = yarn_blend(s, theta, w).stretched(channel);
      list[i] = share / s.factor + (1 - share);
    } else if (s.kind == "dynamic") {
      list[i] = std::pow(dynamic_base(s, w, static_cast<double>(length)), -2.0 * channel / w);
    } else if (s.kind == "longrope") {
      list[i] = 1 / (longer ? s.long_factor : s.short_factor).at(i);
    }
  }
  return list;
}

double rotary_amplitude(const RotaryScaling& s) {
  if (s.kind != "yarn" && s.kind != "longrope") return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  if (s.factor <= 1) return 1;
  if (s.kind == "longrope") {
    const auto original = static_cast<double>(s.original_max_position_embeddings);
    return std::sqrt(1 + std::log(s.factor) / std::log(original));
  }
  if (s.mscale == 0 || s.mscale_all_dim == 0) return yarn_scale(s, 1);
  return yarn_scale(s, s.mscale) / yarn_scale(s, s.mscale_all_dim);
}

double rotary_logit_scale(const RotaryScaling& s) {
  if (s.kind != "yarn" || s.mscale_all_dim == 0) return 1;
  const double scale = yarn_scale(s, s.mscale_all_dim);
  return scale * scale;
}

}  // namespace kha
