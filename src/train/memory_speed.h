// What memory costs on this machine: reading it, and taking it anew at every step.
#pragma once

#include <cstdint>
#include <string>

namespace kha {

// Bytes a second that all threads read together from a buffer far larger than the caches.
double read_bandwidth();

// A round takes sixteen tensors of 4 MB, writes them and frees them, as a step does.
struct RoundCost {
  double seconds = 0;
  std::int64_t faults = 0;  // minor ones
};

// The mean of a few rounds after a first one, with the named allocator ("caching" or "system");
// the choice of allocator is as before afterwards.
RoundCost allocator_round(const std::string& name);

}  // namespace kha
