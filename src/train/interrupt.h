// SIGTERM and SIGINT as a request to save and leave.
#pragma once

namespace kha {

// While one is alive both signals only leave a mark; a second one ends the process at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// The signal that came, or 0.
int interrupt_signal();

// 130 for SIGINT, 143 for SIGTERM.
int interrupt_exit_code();

}  // namespace kha
