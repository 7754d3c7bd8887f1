// Log-probabilities of the ends of token sequences, for evaluation harnesses.
#pragma once

#include <cstdint>
#include <vector>

#include "model/decoder.h"

namespace kha::cli {

// A sequence whose ids from `from` on are scored; 1 <= from <= ids.size().
struct ScoredSequence {
  std::vector<std::int64_t> ids;
  std::int64_t from = 1;
};

struct SequenceScore {
  double log_probability = 0;  // of all scored ids, natural logarithms summed in float64
  bool greedy = true;          // each of them is the most likely one at its place
};

// One pass over all of them, the shorter ones padded behind their end, where no token looks:
// causal attention keeps the padding out of every score.
std::vector<SequenceScore> score_sequences(const Decoder& decoder,
                                           const std::vector<ScoredSequence>& sequences);

}  // namespace kha::cli
