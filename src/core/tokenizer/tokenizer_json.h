// Parts of a tokenizer.json that kha writes, as the `tokenizers` package reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace kha {

using TokenizerJson = nlohmann::ordered_json;

TokenizerJson special_token_json(std::int64_t id, const std::string& content);

// A byte-level BPE without unknown token and byte fallback.
TokenizerJson bpe_json(TokenizerJson vocab, TokenizerJson merges);

// Text of tokenizer_config.json.
std::string fast_tokenizer_config(const std::string& end);

}  // namespace kha
