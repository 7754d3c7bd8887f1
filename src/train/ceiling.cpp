#include "train/ceiling.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "kha/kernels/instruction_set.h"
#include "kha/ops/ceiling.h"

namespace kha {

Ceiling measure_ceiling(int threads) {
  constexpr double seconds = 0.012;  // a window
  double best = 0;
  // The first windows raise the clocks.
  for (int i = 0; i < 8; ++i) best = std::max(best, ops::measure_ceiling(threads, seconds));
  return {best, threads, std::string(to_string(widest_instruction_set()))};
}

Ceiling measure_ceiling() { return measure_ceiling(at::get_num_threads()); }

Ceiling ceiling_of(const Arithmetic& arithmetic) {
  const bool known = arithmetic.device.is_cpu() && arithmetic.dtype == at::kFloat;
  return known ? measure_ceiling() : Ceiling{};
}

std::string in_words(const Ceiling& c) {
  if (c.flops == 0) return "not known for this device and precision; MFU is left out";
  return fmt::format("{:.0f} GFLOP/s (fp32 multiply-adds in registers, {}, {} thread{})",
                     c.flops / 1e9, c.instruction_set, c.threads, c.threads == 1 ? "" : "s");
}

}  // namespace kha
