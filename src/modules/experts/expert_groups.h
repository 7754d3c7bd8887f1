// The groups of an assignment, and how threads share them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "modules/experts/selection.h"

namespace kha {

// The pairs of one expert in tensors that hold all pairs.
struct Group {
  int64_t place;  // among the groups, 0, 1, …
  int64_t expert, begin, count;

  at::Tensor of(const at::Tensor& pairs) const { return pairs.narrow(0, begin, count); }
};

// From this many pairs on a group is alone, and its products share the threads instead: an expert
// that took most tokens would keep one thread busy while the others wait. The bound is a constant,
// so that the thread count decides about no bit.
constexpr int64_t lone_group = 4096;

// Calls work(group) for every expert with tokens. On the CPU each thread takes the next group, in
// the order of the experts, and a group's products run on its thread alone: no thread waits for
// another within a product. On other devices one group follows the other.
void for_each_group(const Assignment& assignment, bool on_cpu,
                    const std::function<void(const Group&)>& work);

}  // namespace kha
