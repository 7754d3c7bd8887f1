// The loop behind the head loss: logits, softmax and gradients of a chunk of rows after another.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha::ops {

struct HeadLoss {
  at::Tensor losses;   // [N]
  at::Tensor dhidden;  // [N, d], of sum_n scales[n] * losses[n]
  at::Tensor dweight;  // [V, d]
};

// The losses alone: gradients stay undefined.
HeadLoss head_loss_by_chunks(const at::Tensor& hidden, const at::Tensor& weight,
                             const at::Tensor& targets);

// With both gradients, or with dhidden alone; those of the losses with the squared log-sum-exp of
// each row's logits z_loss times.
HeadLoss head_loss_by_chunks(const at::Tensor& hidden, const at::Tensor& weight,
                             const at::Tensor& targets, const at::Tensor& scales, bool with_weight,
                             double z_loss);

}  // namespace kha::ops
