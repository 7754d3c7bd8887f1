#include "kha/core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace kha {

Progress::Progress(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDOUT_FILENO) != 0) {}

void Progress::draw(const std::string& text) {
  fmt::print("\r\033[2K{}", text);
  std::fflush(stdout);
  drawn_ = true;
}

void Progress::step(const StepFigures& f, bool logged) {
  const std::string text = fmt::format(
      "{}step {}/{}  loss {:.4f}  |g| {:.2f}  lr {:.2e}  {:.0f} tok/s  {:.0f} GFLOP/s{}  {}  {} "
      "left",
      label_, f.step, f.steps, f.loss, f.grad_norm, f.lr, f.tokens_per_second, f.gflops,
      f.mfu > 0 ? fmt::format(" (MFU {:.0f} %)", 100 * f.mfu) : "",
      bytes_text(static_cast<double>(f.resident_bytes)), duration_text(f.seconds_left));
  if (terminal_) {
    draw(text);
  } else if (logged) {
    line(text);
  }
}

void Progress::passing(const std::string& text) {
  if (terminal_) draw(label_ + text);
}

void Progress::clear() {
  if (drawn_) fmt::print("\r\033[2K");
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  clear();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Progress::finish() {
  if (drawn_) fmt::print("\n");
  drawn_ = false;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.0f} kB", bytes / 1e3);
}

}  // namespace kha
