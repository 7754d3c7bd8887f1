// Where the time of recorded steps went, by part and by operator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/profile/recorder.h"

namespace kha {

struct PartTime {
  double forward = 0, backward = 0;  // seconds; a part without a gradient has forward only
};

struct OperatorTime {
  std::string name;
  std::int64_t calls = 0;
  double own = 0;  // seconds, without the operators that it called
};

struct Breakdown {
  std::map<std::string, PartTime> parts;  // of the thread that makes the steps
  std::vector<OperatorTime> operators;    // of all threads, the slowest first
  double seconds = 0;                     // of the outermost parts, which the parts sum up to
};

// The name of what the autograd engine does between two nodes: sums of gradients, its own work.
inline constexpr const char* between_nodes = "between backward nodes";

// An instant belongs to the innermost part that is open then; a backward node to the part in which
// its forward was; a part that opens inside a backward node (recomputation) to backward. The
// thread is that of the first part; events of other threads count as operators only.
Breakdown break_down(const std::vector<ProfileEvent>& events);

}  // namespace kha
