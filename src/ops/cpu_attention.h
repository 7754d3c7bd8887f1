// Causal attention of float32 tensors on the CPU, by kha's own kernels: cutting into pieces,
// threads. Results are contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include "kha/ops/export.h"
#include "ops/cpu_rows.h"

namespace kha::ops {

// queries: [B, T, H, D], the last T of S positions, 1 <= T <= S; keys: [B, S, H_kv, D]; values:
// [B, S, H_kv, D_v]. Query head h reads key head floor(h / (H / H_kv)). Scale 1 / sqrt(D).
// Errors: c10::ValueError naming the shapes that do not fit.
struct AttentionInputs {
  at::Tensor queries_BTHD, keys_BSHD, values_BSHD;
};

struct Attended {
  at::Tensor y_BTHD;    // [B, T, H, D_v]
  at::Tensor sums_BHT;  // what the backward pass needs of the softmax (CpuKernels)
};
KHA_API Attended attention_forward(const CpuKernels& kernels, const AttentionInputs& inputs);

// The gradient of each input, of their shapes. Where the threads are more than the key heads, the
// keys are shared among them and then the queries, which forms the scores twice; the bits are the
// same for any number of threads.
KHA_API AttentionInputs attention_backward(const CpuKernels& kernels, const at::Tensor& grad_BTHD,
                                           const AttentionInputs& inputs, const Attended& results);

}  // namespace kha::ops
