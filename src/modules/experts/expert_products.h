// The routed experts' products, token groups by token groups.
#pragma once

#include <ATen/core/Tensor.h>

#include "modules/experts/selection.h"

namespace kha {

// Of all experts of a layer, each a matrix [out, in] in one tensor.
struct ExpertMatrices {
  at::Tensor gate_Efd, up_Efd, down_Edf;
};

// y_n = sum over the experts e of token n of w_ne down_e(silu(gate_e x_n) * up_e x_n).
// x: [..., d], N rows; weights: [N, k] at the places of the assignment; y: as x, a fresh tensor.
// Each expert's tokens are gathered once and go through three products; matrices are read where
// they lie, those of experts without tokens not at all. Sums run in the order of the experts: bits
// depend on neither threads nor time. Differentiable in x, weights and the matrices; backward keeps
// its arguments and the products of gate and up, and forms the rest again.
at::Tensor expert_products(const at::Tensor& x, const at::Tensor& weights_Nk,
                           const Assignment& assignment, const ExpertMatrices& matrices);

}  // namespace kha
