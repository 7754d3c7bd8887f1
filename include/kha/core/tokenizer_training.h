// A byte-level BPE tokenizer made from text.
//
// The merges are those that BpeTrainer of the `tokenizers` package finds for the same documents:
// the most frequent pair first, of equally frequent ones the pair of the lower ids; ids are the
// special tokens, then the 256 bytes, then the merges in their order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kha/core/text_source.h"

namespace kha {

struct TokenizerTraining {
  TextSourceOptions text;
  std::int64_t vocab_size = 0;  // special tokens and bytes included
  // How text is split before merges: "gpt2", "llama3" or "qwen". Qwen's cuts numbers into single
  // digits, which spends no ids of a small vocabulary on them.
  std::string split = "qwen";
  bool nfc = false;                   // normalise, so that composed and decomposed letters are one
  std::int64_t min_frequency = 2;     // a pair must be met that often to become a token
  std::string end = "<|endoftext|>";  // the end mark, special, id 0
  std::vector<std::string> special = {};  // more special tokens, ids from 1
  int threads = 0;                        // for counting words; 0 takes all cores
};

enum class TrainingStage { reading, counting, merging };

// Called now and then. Bytes of text while reading and counting, tokens of the vocabulary while
// merging; `total` is 0 while it is not known.
using TrainingProgress =
    std::function<void(TrainingStage stage, std::uint64_t done, std::uint64_t total)>;

struct TrainedTokenizer {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::int64_t vocab_size = 0;  // less than asked for where the text has no more pairs
  std::int64_t merges = 0;
  std::int64_t documents = 0;
  std::uint64_t bytes = 0;  // of text
  std::int64_t words = 0;   // different pieces that the text was split into
  SkippedFiles skipped;
};

// Memory grows with the number of different words, not with the length of the text. Throws Error
// as collect_text(); for a vocabulary that has no room for bytes and special tokens; for a split
// pattern that is not known; for special tokens that are empty or repeated.
TrainedTokenizer train_tokenizer(const TokenizerTraining& training,
                                 const TrainingProgress& progress = {});

}  // namespace kha
