// A few threads for one job.
#pragma once

#include <functional>

namespace kha {

// The cores that this process may use; at least 1.
int usable_cores();

// Calls `work` once on each of `threads` threads, the calling one among them, and waits for all.
// The first exception is thrown again when all have ended.
void on_threads(int threads, const std::function<void()>& work);

}  // namespace kha
