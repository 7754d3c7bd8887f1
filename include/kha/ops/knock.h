// The knocking-heads maps as differentiable tensor operators (arXiv 2510.23052, eq. 5-9).
//
// Each function calls the dispatcher's operator of its name, torch.ops.kha.NAME in Python, so
// autograd, autocast, meta tensors and torch.compile work alike from both sides.
//
// Shapes: x is [..., heads, D], any leading dimensions (also none, also empty ones), the last
// dimension adjacent in memory (stride 1), other strides free. One map serves every head. The
// result has x's shape and is contiguous; it never aliases an input.
// Convention: the paper writes y = x T with row vectors. Matrices are stored as torch.nn.Linear
// stores them, [out, in], and y = x M^T: M is the paper's T transposed.
// Dtypes: float32, float64, bfloat16, float16; x and every matrix alike. Under autocast, inputs
// are cast to its dtype first, as those of torch.nn.functional.linear are. On CUDA the products
// obey torch.backends.cuda.matmul.allow_tf32; with TF32 on, the identity start is not exact.
// Memory: backward keeps x and the matrices, nothing else; the rest is computed again.
// Errors: c10::ValueError (ValueError in Python) naming operator, argument, value received, value
// allowed and fix. Second derivatives are not implemented; asking for one is an error.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kha/ops/export.h"

namespace kha::ops {

// linear: y = x M^T. weight: [D, D].
KHA_API at::Tensor knock_linear(const at::Tensor& x, const at::Tensor& weight);

// mlp: y = 2 (x U^T * sigmoid(x G^T)) W^T, `*` elementwise. up U, gate G, down W: [D, D].
KHA_API at::Tensor knock_mlp(const at::Tensor& x, const at::Tensor& up, const at::Tensor& gate,
                             const at::Tensor& down);

// gate: y = 2 x * sigmoid(x G^T). gate: [D, D].
KHA_API at::Tensor knock_gate(const at::Tensor& x, const at::Tensor& gate);

// The linear map in weight space: W'_h = M W_h and b'_h = M b_h for every head h, y = x W'^T + b'.
// x: [..., d], any strides; weight: [heads * D, d]; bias: [heads * D] or none; map: [D, D], whose
// size gives heads. y: [..., heads * D]. Equals knock_linear of the projection, up to rounding.
KHA_API at::Tensor knocked_linear(const at::Tensor& x, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, const at::Tensor& map);

}  // namespace kha::ops
