// What the processor can do, as it says itself.
#pragma once

namespace kha {

struct CpuFeatures {
  bool avx2_fma = false;
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // products of bfloat16 pairs
  bool amx_bf16 = false;     // tiles of bfloat16

  bool bf16() const { return avx512_bf16 || amx_bf16; }
};

CpuFeatures cpu_features();

}  // namespace kha
