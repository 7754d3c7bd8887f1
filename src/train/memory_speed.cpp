#include "train/memory_speed.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "memory/caching_allocator.h"
#include "train/process_figures.h"

namespace kha {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void take_write_and_free() {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 16; ++i) tensors.push_back(at::ones({1 << 20}));
}

}  // namespace

double read_bandwidth() {
  const at::Tensor buffer = at::ones({64 << 20});
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    buffer.sum();
    best = std::max(best, static_cast<double>(buffer.nbytes()) / seconds_since(begin));
  }
  return best;
}

RoundCost allocator_round(const std::string& name) {
  constexpr int rounds = 4;
  const std::string before = chosen_allocator();
  choose_allocator(name);
  take_write_and_free();
  const std::int64_t faults = minor_faults();
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; ++i) take_write_and_free();
  const RoundCost cost{seconds_since(begin) / rounds, (minor_faults() - faults) / rounds};
  choose_allocator(before);
  return cost;
}

}  // namespace kha
