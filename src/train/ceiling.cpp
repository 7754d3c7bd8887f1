#include "train/ceiling.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "kha/kernels/cpu_kernels.h"

namespace kha {
namespace {

// Operations a second of one window in which every thread makes `rounds` rounds.
double window(const CpuKernels& kernels, int threads, std::int64_t rounds) {
  const auto begin = std::chrono::steady_clock::now();
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) kernels.probe_multiply_add(rounds);
  });
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  const double operations = 2.0 * 256 * static_cast<double>(kernels.lanes * rounds * threads);
  return operations / passed.count();
}

}  // namespace

Ceiling measure_ceiling(int threads) {
  constexpr double seconds = 0.01;  // a window
  const CpuKernels& kernels = cpu_kernels(widest_instruction_set());
  // The first windows wake threads up and raise clocks; the second says how long one should be.
  window(kernels, threads, 1000);
  const double pace = window(kernels, threads, 1000);
  const double a_round = 2.0 * 256 * static_cast<double>(kernels.lanes * threads);
  const auto rounds =
      std::max<std::int64_t>(1000, static_cast<std::int64_t>(seconds * pace / a_round));
  double best = 0;
  for (int i = 0; i < 8; ++i) best = std::max(best, window(kernels, threads, rounds));
  return {best, threads, std::string(to_string(kernels.set))};
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
