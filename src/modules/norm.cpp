#include "modules/norm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace kha {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const bool narrow = x.scalar_type() != at::kDouble && x.scalar_type() != at::kFloat;
  const at::Tensor wide = narrow ? x.to(at::kFloat) : x;
  const at::Tensor mean_square = wide.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (wide * at::rsqrt(mean_square + eps)).to(x.scalar_type());
}

}  // namespace kha
