#include "kha/kernels/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kha {

#if defined(__x86_64__)

namespace {

// GCC 12 has no name for AMX in __builtin_cpu_supports: leaf 7, EDX bit 22.
bool has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1) != 0;
}

}  // namespace

CpuFeatures cpu_features() {
  __builtin_cpu_init();
  return {.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
          .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"),
          .avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0,
          .amx_bf16 = has_amx_bf16()};
}

#else

CpuFeatures cpu_features() { return {}; }

#endif

}  // namespace kha
