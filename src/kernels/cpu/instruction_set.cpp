#include "kha/kernels/instruction_set.h"

#include "kha/kernels/cpu_features.h"

namespace kha {

#if defined(KHA_X86_SETS)

bool is_usable(InstructionSet set) {
  const CpuFeatures cpu = cpu_features();
  switch (set) {
    case InstructionSet::avx2:
      return cpu.avx2_fma;
    case InstructionSet::avx512:
      return cpu.avx512 && cpu.avx2_fma;
    default:
      return true;
  }
}

#else

bool is_usable(InstructionSet set) { return set == InstructionSet::scalar; }

#endif

InstructionSet widest_instruction_set() {
  for (InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2}) {
    if (is_usable(set)) return set;
  }
  return InstructionSet::scalar;
}

}  // namespace kha
