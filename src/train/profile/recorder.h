// What ran when: torch's record of operators, backward nodes and marked parts, as a list.
//
// A part is marked in the code by RECORD_USER_SCOPE("kha/NAME"), which costs nothing while nobody
// records. Recording touches no tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kha {

struct ProfileEvent {
  // engine_call: the autograd engine around one node.
  enum class Kind { part, operation, engine_call, backward_node } kind = Kind::operation;
  std::string name;                 // a part's without "kha/"
  std::int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  std::uint64_t thread = 0;         // torch's number of it
  // A part: the autograd nodes made in it are numbered node_begin .. node_end - 1. A backward node:
  // its own number is node_begin.
  std::int64_t node_begin = -1, node_end = -1;
};

std::int64_t steady_nanoseconds();

// Records all threads of the process between start and stop; one at a time.
class ProfileRecorder {
 public:
  ProfileRecorder() = default;
  ~ProfileRecorder() { stop(); }
  ProfileRecorder(const ProfileRecorder&) = delete;
  ProfileRecorder& operator=(const ProfileRecorder&) = delete;

  void start();
  void stop();
  // In the order of their beginnings, per thread. Whole only after stop.
  const std::vector<ProfileEvent>& events() const { return events_; }

 private:
  friend struct RecorderCallbacks;
  std::vector<ProfileEvent> events_;
  std::uint64_t handle_ = 0;
};

}  // namespace kha
