#include "train/process_figures.h"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "memory/caching_allocator.h"

namespace kha {
namespace {

// A "VmHWM:   1234 kB" line of /proc/self/status, in bytes.
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == key && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int64_t resident_bytes() { return status_bytes("VmRSS:"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

void reset_peak_resident() {
  release_free_memory();
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace kha
