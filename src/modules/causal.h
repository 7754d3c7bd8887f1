// Causal scaled dot-product attention by absolute position, in one place for every system.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "modules/packed_layout.h"

namespace kha {

// Which of S positions each of the last T of them sees: [T, S] bool, j <= i + (S - T).
at::Tensor causal_mask(int64_t queries, int64_t positions, const at::TensorOptions& options);

// For systems that need the scores themselves, [B, heads, T, S] of the last T of S positions:
// softmax over what each query sees, in float32 (float64 for float64), zero for what it does not
// see. The result is of that type.
at::Tensor causal_softmax(const at::Tensor& scores_BHTS);

// `attend` of [B, T, heads, width] tensors, the queries first; where a layout names lengths, of
// each stretch alone, and the results side by side.
using Attend = std::function<at::Tensor(const std::vector<at::Tensor>&)>;
at::Tensor attend_texts(const std::vector<at::Tensor>& tensors, const PackedLayout* layout,
                        const Attend& attend);

// queries: [B, T, H, D], the last T of S positions; keys, values: [B, S, H_kv, D]. Query head h
// reads KV head floor(h / (H / H_kv)); query i sees key j when j <= i + (S - T). Result: [B, T, H,
// D_v]. Scale 1 / sqrt(D). Values may be narrower than keys. T <= S.
// With a layout that names lengths (then S = T) the stretches of a row see themselves alone: work
// and memory are those of the stretches, no mask of T x T is made.
at::Tensor causal_attention(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD,
                            const at::Tensor& values_BSHD, const PackedLayout* layout = nullptr);

}  // namespace kha
