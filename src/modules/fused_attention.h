// Causal attention in one operator, forward and backward, by kha's own kernels where they serve.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace kha {

// What causal_attention (modules/causal.h) returns for positions that are all of one text, with
// its gradients; empty where torch's operators are to be composed: another dtype or device than
// float32 on the CPU, or kha's kernels switched off (ops::set_cpu_implementation).
// Memory: backward keeps the arguments, the result and a number for each query and head; no row of
// scores is ever whole, narrower values are not widened, and a thread's workspace does not grow
// with the text (but for a number a query and head of one group, backward). Second derivatives are
// not implemented; asking for one is an error.
std::optional<at::Tensor> fused_attention(const at::Tensor& queries_BTHD,
                                          const at::Tensor& keys_BSHD,
                                          const at::Tensor& values_BSHD);

}  // namespace kha
