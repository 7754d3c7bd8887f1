// The merges of byte-level BPE, learnt from counted words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tokenizer/word_counts.h"

namespace kha {

struct LearntMerges {
  std::vector<std::string> tokens;  // by id, as raw bytes; special tokens as they are
  std::vector<std::pair<std::uint32_t, std::uint32_t>> merges;  // ids, in order of their ranks
};

// Ids begin with the special tokens and the 256 bytes. Stops at `vocab_size` tokens, or when no
// pair is as frequent as `min_frequency`. `progress` gets the number of tokens so far.
LearntMerges learn_merges(const WordCounts& words, const std::vector<std::string>& special,
                          std::size_t vocab_size, std::uint64_t min_frequency,
                          const std::function<void(std::size_t tokens)>& progress);

}  // namespace kha
