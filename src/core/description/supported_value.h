// Keys of which the decoder computes one value alone: any other is refused, never ignored.
#pragma once

#include <string>

#include "core/description/object_reader.h"

namespace kha {

// `absent`: what the class of transformers takes where the key is missing.
void require_value(ObjectReader& in, const std::string& key, double expected, double absent);

// A missing key means `expected`.
void require_text(ObjectReader& in, const std::string& key, const std::string& expected);

}  // namespace kha
