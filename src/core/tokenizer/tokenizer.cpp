#include "kha/core/tokenizer.h"

namespace kha {

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  encode(text, ids);
  return ids;
}

}  // namespace kha
