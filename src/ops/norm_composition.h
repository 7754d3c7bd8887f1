// RMSNorm of torch's operators, for the dtypes and devices without a kernel of kha's.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/rsqrt.h>

#include <utility>

namespace kha::ops {

// x in the dtype of the arithmetic, 1 / rms(x) [..., 1], and x / rms(x) rounded to x's dtype.
struct Normalised {
  at::Tensor wide, inverse, quotient;
};

inline Normalised normalise(const at::Tensor& x, double eps) {
  const bool narrow = x.scalar_type() != at::kDouble && x.scalar_type() != at::kFloat;
  const at::Tensor wide = narrow ? x.to(at::kFloat) : x;
  const at::Tensor mean_square = wide.pow(2).mean(-1, /*keepdim=*/true);
  const at::Tensor inverse = at::rsqrt(mean_square + eps);
  return {wide, inverse, (wide * inverse).to(x.scalar_type())};
}

inline at::Tensor compose_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return weight * normalise(x, eps).quotient;
}

// dx and dweight; with r = 1 / rms(x): dx = r w g - x r^3 mean(w g x).
inline std::pair<at::Tensor, at::Tensor> compose_norm_backward(const at::Tensor& grad,
                                                               const at::Tensor& x,
                                                               const at::Tensor& weight,
                                                               double eps) {
  const Normalised n = normalise(x, eps);
  const at::Tensor dweight = (grad * n.quotient).reshape({-1, x.size(-1)}).sum(0);
  const at::Tensor dquotient = (grad * weight).to(n.wide.scalar_type());
  // Times 1 / rms before its square: the product is then no larger than w g, nor vanishes.
  const at::Tensor mean = (dquotient * n.wide).mean(-1, /*keepdim=*/true) * n.inverse;
  const at::Tensor dx = dquotient * n.inverse - n.wide * (mean * n.inverse.square());
  return {dx.to(x.scalar_type()).contiguous(), dweight};
}

}  // namespace kha::ops
