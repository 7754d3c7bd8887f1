// The knock maps of float32 tensors on the CPU, by kha's own kernels: cutting into pieces, threads,
// workspace. Arguments are validated already.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/cpu_rows.h"

namespace kha::ops {

enum class MapKind { linear, gate, mlp };

// x: [..., heads, D]; matrices in the schema's order. y like x, contiguous.
at::Tensor knock_forward(const CpuKernels& kernels, MapKind kind, const at::Tensor& x,
                         at::TensorList matrices);

// dx, then one gradient a matrix. Sums over rows are made in pieces that depend on the number of
// rows alone, and added in their order: equal bits for any number of threads.
std::vector<at::Tensor> knock_backward(const CpuKernels& kernels, MapKind kind,
                                       const at::Tensor& grad, const at::Tensor& x,
                                       at::TensorList matrices);

}  // namespace kha::ops
