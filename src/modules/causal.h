// Causal scaled dot-product attention by absolute position, in one place for every system.
#pragma once

#include <ATen/core/Tensor.h>

#include "modules/packed_layout.h"

namespace kha {

// queries: [B, T, H, D], the last T of S positions; keys, values: [B, S, H_kv, D]. Query head h
// reads KV head floor(h / (H / H_kv)); query i sees key j when j <= i + (S - T). Result: [B, T, H,
// D_v]. Scale 1 / sqrt(D). Values may be narrower than keys. T <= S.
// With a layout that names lengths (then S = T) the stretches of a row see themselves alone: work
// and memory are those of the stretches, no mask of T x T is made.
at::Tensor causal_attention(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD,
                            const at::Tensor& values_BSHD, const PackedLayout* layout = nullptr);

}  // namespace kha
