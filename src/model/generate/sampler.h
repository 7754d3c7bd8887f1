// The choice of the next token from its logits.
#pragma once

#include <cstdint>
#include <span>

namespace kha {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the largest logit, the lowest id of equal ones
  std::int64_t top_k = 0;    // only the k largest logits; 0: all
  double top_p = 1.0;        // only the fewest tokens that hold this share of the probability
  std::uint64_t seed = 0;
};

// Errors: a temperature that is negative or not finite, top_k below 0, top_p outside (0, 1].
void validate(const SamplingOptions& options);

// The number in [0, 1) that chooses token `index` of a text: a pure function, the same on every
// machine, so a text is repeated by its seed.
double uniform_draw(std::uint64_t seed, std::int64_t index);

// The id chosen by `uniform` in [0, 1). Tokens stand in the order of their logits, equal ones by
// id; the first k are kept, then of those the fewest whose share reaches top_p, at least one.
// Options must be valid. Errors: no logits, or one that is not finite.
std::int64_t sample(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace kha
