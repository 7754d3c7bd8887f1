#include "modules/experts/grouped_products.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "kha/ops/layers.h"

namespace kha {
namespace {

using at::Tensor;

// Where each expert's pairs end, as the grouped product reads them: [E] int32.
Tensor ends_of(const Assignment& assignment, at::Device device) {
  const std::vector<int32_t> ends(assignment.begin.begin() + 1, assignment.begin.end());
  return at::tensor(ends, at::kInt).to(device);
}

// Of each pair its token's weight, [M, 1].
Tensor pair_weights(const Tensor& weights, const Assignment& assignment, at::ScalarType type) {
  return weights.flatten().index_select(0, assignment.places_M).to(type).unsqueeze(1);
}

// Each token's rows lie side by side in the order of its choices: a sum without atomic additions.
Tensor sum_of_tokens(const Tensor& rows_Md, const Assignment& assignment, int64_t tokens) {
  const Tensor by_place = at::empty_like(rows_Md).index_copy_(0, assignment.places_M, rows_Md);
  const int64_t k = assignment.pairs() / std::max<int64_t>(tokens, 1);
  return by_place.view({tokens, k, rows_Md.size(1)})
      .sum(1, /*keepdim=*/false, at::kFloat)
      .to(rows_Md.scalar_type());
}

// [out, M] x [M, in] -> [E, out, in]; an expert without tokens has zero.
Tensor matrix_gradient(const Tensor& dy, const Tensor& x, const Tensor& ends,
                       const Assignment& assignment) {
  Tensor gradient = at::_grouped_mm(dy.t(), x, ends);
  for (int64_t e = 0; e < assignment.experts(); ++e) {
    if (assignment.count(e) == 0) gradient.select(0, e).zero_();
  }
  return gradient;
}

}  // namespace

Tensor grouped_forward(const Tensor& x, const Tensor& weights, const Assignment& assignment,
                       const ExpertMatrices& m, GatedProducts* kept) {
  if (assignment.pairs() == 0) return at::zeros_like(x);
  const Tensor ends = ends_of(assignment, x.device());
  const Tensor own = x.index_select(0, assignment.tokens_M);
  const Tensor gate = at::_grouped_mm(own, m.gate_Efd.transpose(1, 2), ends);
  const Tensor up = at::_grouped_mm(own, m.up_Efd.transpose(1, 2), ends);
  if (kept) *kept = {gate, up};
  const Tensor inner =
      ops::swiglu(gate, up).mul_(pair_weights(weights, assignment, x.scalar_type()));
  return sum_of_tokens(at::_grouped_mm(inner, m.down_Edf.transpose(1, 2), ends), assignment,
                       x.size(0));
}

ExpertGradients grouped_backward(const Tensor& grad, const Tensor& x, const Tensor& weights,
                                 const Assignment& assignment, const ExpertMatrices& m,
                                 const GatedProducts& kept) {
  if (assignment.pairs() == 0) {
    return {at::zeros_like(x),
            at::zeros_like(weights),
            {at::zeros_like(m.gate_Efd), at::zeros_like(m.up_Efd), at::zeros_like(m.down_Edf)}};
  }
  const Tensor ends = ends_of(assignment, x.device());
  const Tensor weight = pair_weights(weights, assignment, x.scalar_type());
  const Tensor dy = grad.index_select(0, assignment.tokens_M);
  Tensor dinner = at::_grouped_mm(dy, m.down_Edf, ends);  // before the weight
  Tensor inner = ops::swiglu(kept.gate_Mf, kept.up_Mf);
  ExpertGradients to;
  to.dweights_Nk = at::empty_like(weights);
  to.dweights_Nk.view({-1}).index_copy_(
      0, assignment.places_M, (dinner * inner).sum(1, /*keepdim=*/false, weights.scalar_type()));
  to.matrices.down_Edf = matrix_gradient(dy, inner.mul_(weight), ends, assignment);
  const auto [dgate, dup] = ops::swiglu_backward(dinner.mul_(weight), kept.gate_Mf, kept.up_Mf);
  const Tensor own = x.index_select(0, assignment.tokens_M);
  to.matrices.gate_Efd = matrix_gradient(dgate, own, ends, assignment);
  to.matrices.up_Efd = matrix_gradient(dup, own, ends, assignment);
  const Tensor dx = at::_grouped_mm(dgate, m.gate_Efd, ends);
  to.dx_Nd = sum_of_tokens(dx + at::_grouped_mm(dup, m.up_Efd, ends), assignment, x.size(0));
  return to;
}

}  // namespace kha
