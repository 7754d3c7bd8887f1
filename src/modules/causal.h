// Causal scaled dot-product attention by absolute position, in one place for every system.
#pragma once

#include <ATen/core/Tensor.h>

namespace kha {

// queries: [B, T, H, D], the last T of S positions; keys, values: [B, S, H_kv, D]. Query head h
// reads KV head floor(h / (H / H_kv)); query i sees key j when j <= i + (S - T). Result: [B, T, H,
// D]. Scale 1 / sqrt(D). T <= S.
at::Tensor causal_attention(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD,
                            const at::Tensor& values_BSHD);

}  // namespace kha
