// Texts that tokenizers go wrong on, short and well-formed: what every comparison begins with.
#pragma once

#include <vector>

#include "cli/text_input.h"

namespace kha::cli {

std::vector<NamedText> nasty_texts();

}  // namespace kha::cli
