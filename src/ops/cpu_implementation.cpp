#include "kha/ops/cpu_implementation.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>

namespace kha::ops {
namespace {

std::string usable_names() {
  std::string names = "auto, aten";
  for (InstructionSet set : all_instruction_sets) {
    if (is_usable(set)) names += ", " + std::string(to_string(set));
  }
  return names;
}

const CpuKernels* kernels_named(const std::string& name, const std::string& where) {
  if (name == "aten") return nullptr;
  if (name.empty() || name == "auto") {
    const InstructionSet widest = widest_instruction_set();
    return widest == InstructionSet::scalar ? nullptr : &cpu_kernels(widest);
  }
  const auto set = parse_instruction_set(name);
  TORCH_CHECK_VALUE(
      set.has_value(), where, " is \"", name,
      "\", which is no implementation of the CPU kernels; expected one of: ", usable_names());
  TORCH_CHECK_VALUE(
      is_usable(*set), where, " is \"", name,
      "\", but this processor lacks these instructions; expected one of: ", usable_names());
  return &cpu_kernels(*set);
}

const CpuKernels* kernels_of_environment() {
  const char* name = std::getenv("KHA_CPU");
  return kernels_named(name ? name : "auto", "KHA_CPU");
}

std::atomic<const CpuKernels*>& choice() {
  static std::atomic<const CpuKernels*> kernels{kernels_of_environment()};
  return kernels;
}

}  // namespace

const CpuKernels* chosen_cpu_kernels() { return choice().load(std::memory_order_relaxed); }

std::string cpu_implementation() {
  const CpuKernels* kernels = chosen_cpu_kernels();
  return kernels ? std::string(to_string(kernels->set)) : "aten";
}

void set_cpu_implementation(const std::string& name) {
  choice().store(name == "auto" ? kernels_of_environment() : kernels_named(name, "name"));
}

}  // namespace kha::ops
