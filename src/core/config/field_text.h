// Values of a run's fields as TOML writes them.
#pragma once

#include <string>

#include "kha/core/run_config.h"

namespace kha {

std::string quoted(const std::string& text);
// The shortest text that reads back equal, and as a number with a point.
std::string number_text(double value);
std::string value_text(const FieldValue& value);

}  // namespace kha
