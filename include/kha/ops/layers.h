// The decoder's elementwise and row operators: norm, norm with rotation, SwiGLU.
//
// Operators of the dispatcher, torch.ops.kha.NAME in Python. Results are contiguous and alias
// nothing. Strides are free but for the last dimension, whose stride is 1.
// Dtypes: float32, float64, bfloat16, float16, every tensor of a call alike; under autocast they
// are cast to x's dtype (swiglu: autocast's). Norms compute in float32 (float64 for float64) and
// round the quotient to x's dtype before the product with the weight, as transformers does.
// Memory: backward keeps the arguments, nothing else; the rest is computed again.
// Errors: c10::ValueError naming operator, argument, value received, value allowed and fix. Second
// derivatives are not implemented; asking for one is an error.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "kha/ops/export.h"

namespace kha::ops {

// y = weight * round(x / rms(x)), rms(x) = sqrt(mean(x^2) + eps) over the last dimension.
// x: [..., width] with any leading dimensions; weight: [width]; eps > 0.
KHA_API at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// rms_norm over D, then the rotary embedding in half-split layout (channel i pairs with i + D/2):
// y = n * cos + (-n[D/2:], n[:D/2]) * sin with n = rms_norm(x).
// x: [B, T, heads, D], D even; weight: [D]; cos, sin: [T, D], constants without gradient.
KHA_API at::Tensor norm_rope(const at::Tensor& x, const at::Tensor& weight, double eps,
                             const at::Tensor& cos, const at::Tensor& sin);

// silu(gate) * up, silu(g) = g * sigmoid(g). gate, up: [..., width], one shape.
KHA_API at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// Its gradients (dgate, dup) for the result's gradient `grad`, of the same shape; for callers that
// bring a backward pass of their own.
KHA_API std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad,
                                                           const at::Tensor& gate,
                                                           const at::Tensor& up);

}  // namespace kha::ops
