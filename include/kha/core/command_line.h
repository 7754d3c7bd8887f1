// The command that this process was started with, for the records of a run.
#pragma once

#include <string>

namespace kha {

// "kha train small.toml --set 'run.name=a b'": the program's name without its folder, the arguments
// quoted where a shell needs it. Empty where the system does not tell.
std::string command_line();

// The same of the text of /proc/PID/cmdline: words that each end in a NUL. `kha-engine`, which kha
// replaces itself with, is written as the user calls it.
std::string as_command(const std::string& words_with_nuls);

}  // namespace kha
