// Sums over whole float32 tensors on the CPU by kha's own kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/ops/export.h"
#include "ops/cpu_rows.h"

namespace kha::ops {

// sum_i x_i^2 of a tensor of any shape, in pieces of fixed size that are added in their order:
// equal bits for any number of threads. A square beyond float32 makes it infinite.
KHA_API double square_sum(const CpuKernels& kernels, const at::Tensor& x);

}  // namespace kha::ops
