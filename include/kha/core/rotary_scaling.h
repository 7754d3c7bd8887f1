// How the frequencies of the rotary embedding are stretched beyond the length first trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kha {

// config.json's kinds: default; linear (every frequency over factor); llama3 (long wavelengths
// over factor, short ones kept, a blend between); yarn (arXiv 2309.00071: a blend by rotations over
// the original length, cos and sin times attention_factor); dynamic (a larger theta for texts
// longer than the original length, by their length); longrope (arXiv 2402.13753: each frequency
// over a factor of its own, of two lists by the length of the text).
struct RotaryScaling {
  std::string kind = "default";
  double factor = 1;
  double low_freq_factor = 1;   // llama3: kept to be wavelengths below original / high,
  double high_freq_factor = 4;  // stretched those above original / low
  int64_t original_max_position_embeddings = 0;  // of every kind but default and linear
  double beta_fast = 32;                         // yarn: rotations that keep a frequency,
  double beta_slow = 1;                          // and that stretch it
  double attention_factor = 0;                   // yarn, longrope; 0: computed, rotary_amplitude
  bool truncate = true;  // yarn: the blend begins and ends at whole channels
  // yarn: the amplitude is (0.1 mscale ln(factor) + 1) over the same of mscale_all_dim, and latent
  // attention multiplies its logits with the square of the latter; 0: not given.
  double mscale = 0;
  double mscale_all_dim = 0;
  // longrope: of each frequency, for texts up to the original length and for longer ones.
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};

  // Whether frequencies are others beyond the original length.
  bool depends_on_length() const { return kind == "dynamic" || kind == "longrope"; }
  bool operator==(const RotaryScaling&) const = default;
};

// What each of the width / 2 frequencies theta^(-2i / width) is multiplied with in a text of
// `length` positions (0: at most the original length); empty where all stay as they are.
std::vector<double> frequency_multipliers(const RotaryScaling& scaling, double theta, int64_t width,
                                          int64_t length = 0);

// What cos and sin are multiplied with.
double rotary_amplitude(const RotaryScaling& scaling);

// What latent attention multiplies its logits with, beside 1 / sqrt(width), as DeepSeek's models
// do: (0.1 mscale_all_dim ln(factor) + 1)^2.
double rotary_logit_scale(const RotaryScaling& scaling);

}  // namespace kha
