// A mapped file that another program shortens while it is read.
#pragma once

namespace kha {

// The system has no error for a page that is gone, only the signal SIGBUS. From here on the process
// prints what happened to which file, as any error is printed, and leaves with the exit code of bad
// input, instead of dying without a word. What it was writing stands under a hidden name, as after
// a kill. A SIGBUS of any other origin ends the process as before.
void report_cut_files();

}  // namespace kha
