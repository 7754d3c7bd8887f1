// What this build is.
#pragma once

#include <string>

namespace kha {

// The version, e.g. "0.1.0".
std::string version();

// The commit that was built, "-dirty" behind it where files differed; "unknown" outside a
// repository.
std::string build_commit();

}  // namespace kha
