#include "core/tokenizer/tokenizer_json.h"

#include <utility>

namespace kha {

TokenizerJson special_token_json(std::int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

TokenizerJson bpe_json(TokenizerJson vocab, TokenizerJson merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

std::string fast_tokenizer_config(const std::string& end) {
  const TokenizerJson file = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"eos_token", end},
                              {"add_prefix_space", false},
                              {"clean_up_tokenization_spaces", false}};
  return file.dump(2) + "\n";
}

}  // namespace kha
