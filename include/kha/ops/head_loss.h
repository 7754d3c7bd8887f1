// Cross-entropy of the output head without its logits: z = h W^T lives a chunk of rows at a time.
//
// Operators of the dispatcher, torch.ops.kha.NAME in Python. hidden: [N, d] and weight: [V, d], any
// strides, N from 0, float32, float64, bfloat16 or float16 alike; targets: [N] int64, ids below V,
// or -100 for a row that is not counted. Losses are in nats, float32 (float64 for float64).
// Precision: the product is rounded to hidden's dtype, as torch.nn.functional.linear does; softmax,
// loss and the sums over chunks are float32 (float64 for float64). Gradients are exact.
// Memory: beside results, head_loss_chunk_rows * V logits. Chunks depend on shapes alone.
// Errors: c10::ValueError naming operator, argument, value received, value allowed and fix; for a
// target that is no id, its row and value.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "kha/kernels/head_loss_chunk.h"
#include "kha/ops/export.h"

namespace kha::ops {

// The target of a row that is not counted.
constexpr std::int64_t not_counted = -100;

// Each row's loss log(sum_v e^z_nv) - z_n,t(n), [N]; 0 where the target is -100. Differentiable in
// hidden and weight: backward forms the logits again, chunk by chunk, and keeps only its inputs.
KHA_API at::Tensor head_loss(const at::Tensor& hidden, const at::Tensor& weight,
                             const at::Tensor& targets);

// Losses [N], and the gradients of sum_n scales[n] * loss[n] for hidden [N, d] and weight [V, d],
// from the same logits: a step that knows its scales beforehand spares the product that head_loss
// repeats in backward. scales: [N] in the losses' dtype. Without `with_weight` the last result is
// empty, [0]. Not differentiable itself. With `z_loss` the gradients are those of
// sum_n scales[n] * (loss[n] + z_loss * log(sum_v e^z_nv)^2), which keeps logits from drifting
// (arXiv 2204.02311, 5.1); the losses that come back stay the cross-entropy.
KHA_API std::tuple<at::Tensor, at::Tensor, at::Tensor> head_loss_with_gradients(
    const at::Tensor& scales, const at::Tensor& hidden, const at::Tensor& weight,
    const at::Tensor& targets, bool with_weight = true, double z_loss = 0);

using kha::head_loss_chunk_rows;  // rows of logits that are in memory at once

}  // namespace kha::ops
