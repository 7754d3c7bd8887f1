#include "kha/kernels/cpu_kernels.h"

namespace kha {

namespace cpu {
namespace scalar {
extern const CpuKernels kernels;
}
#if defined(KHA_X86_SETS)
namespace avx2 {
extern const CpuKernels kernels;
}
namespace avx512 {
extern const CpuKernels kernels;
}
#endif
}  // namespace cpu

const CpuKernels& cpu_kernels(InstructionSet set) {
#if defined(KHA_X86_SETS)
  if (set == InstructionSet::avx512 && is_usable(set)) return cpu::avx512::kernels;
  if (set == InstructionSet::avx2 && is_usable(set)) return cpu::avx2::kernels;
#endif
  (void)set;
  return cpu::scalar::kernels;
}

}  // namespace kha
