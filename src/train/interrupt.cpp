#include "train/interrupt.h"

#include <csignal>

namespace kha {
namespace {

volatile std::sig_atomic_t received = 0;

void remember(int signal) {
  received = signal;
  std::signal(signal, SIG_DFL);  // the next one is not caught
}

}  // namespace

InterruptGuard::InterruptGuard() {
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int interrupt_signal() { return received; }
int interrupt_exit_code() { return 128 + received; }

}  // namespace kha
