#include "cli/live_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace kha::cli {

LiveLine::LiveLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

LiveLine::~LiveLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

bool LiveLine::due() {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now < next_) return false;
  next_ = now + std::chrono::milliseconds(100);
  return true;
}

void LiveLine::show(const std::string& text) {
  if (!terminal_) return;
  fmt::print(stderr, "\r{}\033[K", text);
  std::fflush(stderr);
  shown_ = true;
}

std::string share_of_bytes(std::uint64_t done, std::uint64_t total) {
  if (total == 0) return fmt::format("{:.1f} MB", done / 1e6);
  return fmt::format("{:3.0f} % of {:.1f} MB", 100.0 * done / total, total / 1e6);
}

}  // namespace kha::cli
