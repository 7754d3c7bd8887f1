// The parts of `kha data`, one file each.
#pragma once

#include "cli/program.h"

namespace kha::cli {

Command data_prepare_command();
Command data_check_command();
Command data_show_command();

}  // namespace kha::cli
