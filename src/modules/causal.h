// Causal scaled dot-product attention by absolute position, in one place for every system.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kha {

// queries: [B, T, H, D], the last T of S positions; keys, values: [B, S, H_kv, D]. Query head h
// reads KV head floor(h / (H / H_kv)); query i sees key j when j <= i + (S - T). Result: [B, T, H,
// D]. Scale 1 / sqrt(D). T <= S.
at::Tensor causal_attention(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD,
                            const at::Tensor& values_BSHD);

// The same for packed rows, [B, T, heads, D] each: row by row, stretches of these lengths see
// themselves alone. Work and memory are those of the stretches; no mask of T x T is made.
at::Tensor causal_attention_by_document(const at::Tensor& queries_BTHD, const at::Tensor& keys_BTHD,
                                        const at::Tensor& values_BTHD,
                                        const std::vector<int64_t>& lengths);

}  // namespace kha
