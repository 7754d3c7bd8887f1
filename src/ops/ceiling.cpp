#include "kha/ops/ceiling.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kha/kernels/cpu_kernels.h"
#include "kha/ops/cpu_implementation.h"

namespace kha::ops {
namespace {

using Clock = std::chrono::steady_clock;

struct Reading {
  Clock::time_point begin, end;
  double operations = 0;
};

// All threads begin together, so that none has the machine for itself. A call of 2,000 rounds takes
// some tenths of a millisecond: the clock is read rarely, and the end is met closely.
void probe(const CpuKernels& kernels, std::atomic<int64_t>& waiting, Clock::duration length,
           Reading& reading) {
  waiting.fetch_sub(1);
  while (waiting.load() > 0) std::this_thread::yield();
  reading.begin = reading.end = Clock::now();
  while (reading.end - reading.begin < length) {
    reading.operations += kernels.probe_multiply_add(2000);
    reading.end = Clock::now();
  }
}

double operations_a_second(const std::vector<Reading>& readings) {
  Clock::time_point begin = readings.front().begin, end = readings.front().end;
  double operations = 0;
  for (const Reading& reading : readings) {
    begin = std::min(begin, reading.begin);
    end = std::max(end, reading.end);
    operations += reading.operations;
  }
  return operations / std::chrono::duration<double>(end - begin).count();
}

}  // namespace

double measure_ceiling(std::int64_t threads, double seconds) {
  TORCH_CHECK_VALUE(threads >= 1 && threads <= 4096, "kha::measure_ceiling: threads is ", threads,
                    "; expected 1 to 4096");
  TORCH_CHECK_VALUE(seconds > 0 && seconds <= 60, "kha::measure_ceiling: seconds is ", seconds,
                    "; expected more than 0 and at most 60");
  const CpuKernels& kernels = cpu_kernels(widest_instruction_set());
  const auto length =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::atomic<int64_t> waiting{threads};
  std::vector<Reading> readings(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (std::int64_t i = 1; i < threads; ++i) {
    others.emplace_back([&, i] { probe(kernels, waiting, length, readings[i]); });
  }
  probe(kernels, waiting, length, readings[0]);
  for (std::thread& other : others) other.join();
  return operations_a_second(readings);
}

// What concerns the machine and no tensor, for callers in Python.
TORCH_LIBRARY_IMPL(kha, CompositeExplicitAutograd, m) {
  m.impl("cpu_implementation", [] { return cpu_implementation(); });
  m.impl("set_cpu_implementation", [](std::string name) { set_cpu_implementation(name); });
  m.impl("widest_instruction_set", [] { return std::string(to_string(widest_instruction_set())); });
  m.impl("measure_ceiling", &measure_ceiling);
}

}  // namespace kha::ops
