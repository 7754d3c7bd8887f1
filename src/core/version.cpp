#include "kha/core/version.h"

namespace kha {

std::string version() { return KHA_VERSION; }

}  // namespace kha
