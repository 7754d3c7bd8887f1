// Bytes of a text that often mean that a file is not what it seems.
#pragma once

#include <cstdint>
#include <string_view>

#include "kha/core/corpus.h"

namespace kha {

// Adds those of a text. `begins`: it is the beginning of a document, where a byte order mark may
// stand.
void count_text(std::string_view text, bool begins, TextCounts& counts);

}  // namespace kha
