// Sizes of a model by their symbols, for tables that hold for every model.
#pragma once

#include <cstdint>
#include <string>

#include "kha/core/model_config.h"

namespace kha {

// A model whose sizes are all different, so that a size tells which one it is. It need not be a
// model that can be built.
ModelConfig model_of_symbols();

// "H_kv" for model_of_symbols().num_key_value_heads; "D - d_R" for such a difference; "1" for 1.
std::string symbol_of(int64_t size);

// "H_kv D" for the product, without factors of 1.
std::string product_of(int64_t heads, int64_t width);

// What each symbol means, in one sentence.
std::string meaning_of_symbols();

}  // namespace kha
