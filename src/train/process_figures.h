// What the operating system counts of this process.
#pragma once

#include <cstdint>

namespace kha {

int64_t minor_faults();         // pages taken without reading a disk, since the start
int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // since the start or the last reset
// Gives free memory back and lets the peak start anew, so that arms of one process compare.
void reset_peak_resident();

}  // namespace kha
