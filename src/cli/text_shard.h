// Text that a command is given, as one shard of tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kha/core/token_shard.h"
#include "kha/core/tokenizer.h"

namespace kha::cli {

// Every file a document with an end mark, in a temporary folder that goes with the object.
class TextShard {
 public:
  TextShard(const std::vector<std::string>& paths, std::shared_ptr<const Tokenizer> tokenizer);
  ~TextShard();
  TextShard(const TextShard&) = delete;
  TextShard& operator=(const TextShard&) = delete;

  const TokenShard& shard() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kha::cli
