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

}  // namespace kha::ops
