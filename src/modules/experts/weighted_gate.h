// What stands between an expert's products: silu(gate) * up, with the router's weight of each row.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha {

// weights_r silu(gate_r) * up_r. gate, up: [n, f] of adjacent rows; weights: [n], one dtype.
at::Tensor weighted_swiglu(const at::Tensor& gate_nf, const at::Tensor& up_nf,
                           const at::Tensor& weights_n);

// Made in one pass over the rows: the result of weighted_swiglu again and the gradients of its
// arguments; dweights in float32, of float64 in float64.
struct WeightedSwigluBackward {
  at::Tensor y_nf, dgate_nf, dup_nf, dweights_n;
};
WeightedSwigluBackward weighted_swiglu_backward(const at::Tensor& grad_nf,
                                                const at::Tensor& gate_nf, const at::Tensor& up_nf,
                                                const at::Tensor& weights_n);

}  // namespace kha
