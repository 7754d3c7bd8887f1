#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/vector.h"

namespace kha::cpu::KHA_SET {

// `extern`: a constant is private to its file otherwise.
#define KHA_QUOTED(name) #name
#define KHA_NAME_OF(set) KHA_QUOTED(set)

extern const CpuKernels kernels;
constinit const CpuKernels kernels{
    .set = *parse_instruction_set(KHA_NAME_OF(KHA_SET)),
    .lanes = lanes,
    .probe_multiply_add = probe_multiply_add,
};

}  // namespace kha::cpu::KHA_SET
