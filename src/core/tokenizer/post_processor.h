// The "post_processor" of a tokenizer.json: the special tokens around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tokenizer/json_field.h"

namespace kha {

struct TokensAround {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> behind;
};

// Null gives none.
TokensAround tokens_around(const JsonField& field);

}  // namespace kha
