// kha inspect run: a part of `kha inspect`, in a file of its own.
#pragma once

#include "cli/program.h"

namespace kha::cli {

Command inspect_run_command();

}  // namespace kha::cli
