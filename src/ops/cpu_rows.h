// Tensors as kha's CPU kernels read them.
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/kernels/cpu_kernels.h"

namespace kha::ops {

// The chosen kernels where they serve x, else null: then torch's operators are composed.
const CpuKernels* kernels_for(const at::Tensor& x);

// x [..., heads, D] as rows; `holder` keeps the copy alive that layouts beyond HeadRows need.
HeadRows head_rows(const at::Tensor& x, at::Tensor& holder);

}  // namespace kha::ops
