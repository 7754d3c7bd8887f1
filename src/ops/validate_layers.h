// The validator of the decoder's other operators: head loss, norms, SwiGLU. See ops/validate.h.
#pragma once

#include "ops/validate.h"

namespace kha::ops {

// hidden: [N, d]; weight: [V, d], hidden's dtype and device; targets: [N] int64 on that device.
void check_head_loss(const char* op, const at::Tensor& hidden, const at::Tensor& weight,
                     const at::Tensor& targets);

// Of softmax and losses: float32, and float64 for float64 hidden states.
inline at::ScalarType loss_dtype(const at::Tensor& hidden) {
  return hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// scales: [N] in the dtype of the losses.
void check_scales(const char* op, const at::Tensor& scales, const at::Tensor& hidden);

// Every target is an id below `vocabulary`, or -100. Reads values: not for meta tensors.
void check_target_values(const char* op, const at::Tensor& targets, std::int64_t vocabulary);

// x: [..., width]; weight: [width], x's dtype and device; eps above 0.
void check_norm(const char* op, const at::Tensor& x, const at::Tensor& weight, double eps);

// x: [B, T, heads, D] with D even; weight: [D]; cos, sin: [T, D]; one dtype, one device.
void check_norm_rope(const char* op, const at::Tensor& x, const at::Tensor& weight, double eps,
                     const at::Tensor& cos, const at::Tensor& sin);

// gate, up: [..., width], alike in shape, dtype and device.
void check_swiglu(const char* op, const at::Tensor& gate, const at::Tensor& up);

// The first tensor's shape, dtype and device.
void check_same_shape(const char* op, Named other, Named first);

// No gradient is wanted of it.
void check_constant(const char* op, Named constant);

}  // namespace kha::ops
