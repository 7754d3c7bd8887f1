// Norm, rotation and SwiGLU of float32 tensors on the CPU, by kha's own kernels: cutting into
// pieces, threads. Arguments are validated already; results are contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "ops/cpu_rows.h"

namespace kha::ops {

// cos and sin [T, D] where the rotation follows, both undefined where not.
struct Angles {
  at::Tensor cos, sin;
};

// x: [..., heads, D]; with angles [B, T, heads, D].
at::Tensor norm_forward(const CpuKernels& kernels, const at::Tensor& x, const at::Tensor& weight,
                        double eps, const Angles& angles);

// dx and dweight. The sum over rows is made in pieces that depend on their number alone, and added
// in their order: equal bits for any number of threads.
std::pair<at::Tensor, at::Tensor> norm_backward(const CpuKernels& kernels, const at::Tensor& grad,
                                                const at::Tensor& x, const at::Tensor& weight,
                                                double eps, const Angles& angles);

// gate, up: [..., 1, width].
at::Tensor swiglu_forward(const CpuKernels& kernels, const at::Tensor& gate, const at::Tensor& up);

// dgate and dup.
std::pair<at::Tensor, at::Tensor> swiglu_backward(const CpuKernels& kernels, const at::Tensor& grad,
                                                  const at::Tensor& gate, const at::Tensor& up);

}  // namespace kha::ops
