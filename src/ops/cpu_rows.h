// Tensors as kha's CPU kernels read them.
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/kernels/cpu_kernels.h"
#include "kha/ops/export.h"

namespace kha::ops {

// The chosen kernels where they serve x, else null: then torch's operators are composed.
KHA_API const CpuKernels* kernels_for(const at::Tensor& x);

// x [..., heads, D] as rows; `holder` keeps the copy alive that layouts beyond HeadView need.
HeadView head_rows(const at::Tensor& x, at::Tensor& holder);

// How many items of `values` numbers each are worth another thread: some 16 K numbers.
constexpr int64_t thread_grain(int64_t values) {
  return values >= 16384 ? 1 : 16384 / (values > 0 ? values : 1);
}

}  // namespace kha::ops
