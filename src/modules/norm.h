// RMSNorm over the last dimension, in float32 whatever the input's dtype.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha {

// y = weight * round(x / rms(x)), rms(x) = sqrt(mean(x^2) + eps); x: [..., width], weight: [width].
// The quotient is rounded to x's dtype before the product, as transformers does.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace kha
