// One line of progress on a terminal, at most ten times a second; nothing elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace kha::cli {

class LiveLine {
 public:
  LiveLine();
  ~LiveLine();  // takes the line away
  LiveLine(const LiveLine&) = delete;

  bool due();  // whether it is time for another text
  void show(const std::string& text);

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point next_{};
  bool shown_ = false;
};

// " 34 % of 12.0 MB", or "4.1 MB" where the total is not known.
std::string share_of_bytes(std::uint64_t done, std::uint64_t total);

}  // namespace kha::cli
