// Products of query heads with the keys and values that they share, which are never repeated.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha {

// queries: [B, T, H, D]; keys: [B, S, H_kv, D]. Query head h meets KV head floor(h / (H / H_kv)).
// Result: [B, H, T, S], contiguous.
at::Tensor scores_by_key_head(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD);

// weights: [B, H, T, S]; values: [B, S, H_kv, D]. Result: [B, T, H, D], not contiguous.
at::Tensor sums_by_key_head(const at::Tensor& weights_BHTS, const at::Tensor& values_BSHD);

}  // namespace kha
