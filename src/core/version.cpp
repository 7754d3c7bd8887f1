#include "kha/core/version.h"

#include "kha_commit.h"  // made by cmake/commit.cmake

namespace kha {

std::string version() { return KHA_VERSION; }

std::string build_commit() { return KHA_COMMIT; }

}  // namespace kha
