// The experts' products through torch's grouped product: all experts in one call.
#pragma once

#include <ATen/core/Tensor.h>

#include "modules/experts/expert_products.h"

namespace kha {

// The products of gate and up for all pairs, [M, f].
struct GatedProducts {
  at::Tensor gate_Mf, up_Mf;
};

// As expert_products, of x [N, d], without autograd; `kept` takes the products for backward, null:
// nobody asks. Sums run in the order of a token's choices. Types: those of at::_grouped_mm, with
// rows of multiples of 16 bytes.
at::Tensor grouped_forward(const at::Tensor& x_Nd, const at::Tensor& weights_Nk,
                           const Assignment& assignment, const ExpertMatrices& matrices,
                           GatedProducts* kept);

struct ExpertGradients {
  at::Tensor dx_Nd, dweights_Nk;
  ExpertMatrices matrices;
};
// The gradients behind `grad`, [N, d], all of them: frozen matrices are rare.
ExpertGradients grouped_backward(const at::Tensor& grad_Nd, const at::Tensor& x_Nd,
                                 const at::Tensor& weights_Nk, const Assignment& assignment,
                                 const ExpertMatrices& matrices, const GatedProducts& kept);

}  // namespace kha
