// The tokenizer of a tokenizer.json: its parts in the order in which a text goes through them.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/bpe_model.h"
#include "core/tokenizer/post_processor.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/text_decoder.h"
#include "core/tokenizer/text_normaliser.h"
#include "core/tokenizer/word_cache.h"
#include "kha/core/tokenizer.h"

namespace kha {

class BpeTokenizer : public Tokenizer {
 public:
  // `text` is that of tokenizer.json, `json` the same read; `file` is where it lies, for messages
  // and for the files beside it. Throws Error for what is not understood.
  BpeTokenizer(std::filesystem::path file, std::string text, const JsonField& json);

  using Tokenizer::encode;
  std::string kind() const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::uint64_t hash() const override { return hash_; }
  std::int64_t end_id() const override { return end_id_; }
  void encode(std::string_view text, std::vector<std::int64_t>& ids) const override;
  void encode_with_special(std::string_view text, std::vector<std::int64_t>& ids,
                           bool with_around) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::string text_of(std::int64_t id) const override;
  std::int64_t bytes_of(std::int64_t id) const override;
  std::string token(std::int64_t id) const override;
  void save(const std::filesystem::path& folder) const override;

 private:
  struct Token {
    std::string text;  // as in the file
    std::string spelled;
    bool exists = false;
    bool special = false;
  };
  struct Scratch {
    WordCache cache;
    MergeScratch merges;
    std::vector<std::uint32_t> symbols;
  };
  class Encoding;

  void list_tokens();
  const Token& checked(std::int64_t id) const;
  std::unique_ptr<Scratch> take_scratch() const;
  void put_back(std::unique_ptr<Scratch> scratch) const;

  std::filesystem::path file_;
  std::string json_text_;
  TextNormaliser normaliser_;
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  AddedTokens added_;
  TokensAround around_;
  TextDecoder decoder_;
  std::vector<Token> tokens_;  // by id
  std::uint64_t hash_ = 0;
  std::int64_t end_id_ = -1;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // one for each thread that ever encoded
};

}  // namespace kha
