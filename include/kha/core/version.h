// The version of this build, e.g. "0.1.0".
#pragma once

#include <string>

namespace kha {

std::string version();

}  // namespace kha
