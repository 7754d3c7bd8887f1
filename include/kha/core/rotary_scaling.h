// How the frequencies of the rotary embedding are stretched beyond the length first trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kha {

// config.json's kinds: default; linear (every frequency over factor); llama3 (long wavelengths
// over factor, short ones kept, a blend between); yarn (arXiv 2309.00071: a blend by rotations over
// the original length, cos and sin times attention_factor).
struct RotaryScaling {
  std::string kind = "default";
  double factor = 1;
  double low_freq_factor = 1;   // llama3: kept to be wavelengths below original / high,
  double high_freq_factor = 4;  // stretched those above original / low
  int64_t original_max_position_embeddings = 0;  // llama3, yarn
  double beta_fast = 32;                         // yarn: rotations that keep a frequency,
  double beta_slow = 1;                          // and that stretch it
  double attention_factor = 0;                   // yarn; 0: 0.1 ln(factor) + 1
  bool truncate = true;  // yarn: the blend begins and ends at whole channels

  bool operator==(const RotaryScaling&) const = default;
};

// What each of the width / 2 frequencies theta^(-2i / width) is multiplied with; empty for
// `default`.
std::vector<double> frequency_multipliers(const RotaryScaling& scaling, double theta,
                                          int64_t width);

// What cos and sin are multiplied with.
double rotary_amplitude(const RotaryScaling& scaling);

}  // namespace kha
