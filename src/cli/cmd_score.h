// `kha-engine score`: hidden, since the companion kha-harness alone talks to it.
#pragma once

#include "cli/program.h"

namespace kha::cli {

Command score_command();

}  // namespace kha::cli
