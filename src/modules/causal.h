// Who sees whom, and causal scaled dot-product attention, in one place for every system.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "modules/packed_layout.h"

namespace kha {

// Which of S positions the queries of the last T may see, [1 or B, 1, T, S] bool: query i sees key
// j when j <= i + (S - T) (torch's own causal flag is aligned to the top left: right only for
// S = T), when both are of one document, and when both are text. A padding query sees nobody.
// Undefined where every query sees every key: one query and no padding.
// `layout` may be null; one that names lengths has S = T.
at::Tensor causal_mask(int64_t queries, int64_t positions, const PackedLayout* layout,
                       at::Device device);

// For systems that need the scores themselves, [B, heads, T, S] of the last T of S positions:
// softmax of scale * scores over what each query sees, in float32 (float64 for float64). What it
// does not see has weight zero exactly, whatever its finite score; the weights of a query that sees
// no key are all zero, and so are their gradients.
at::Tensor causal_softmax(const at::Tensor& scores_BHTS, const PackedLayout* layout = nullptr,
                          double scale = 1.0);

// `attend` of [B, T, heads, width] tensors, the queries first, with the layout that they are to be
// read by. Where `layout` names lengths and no padding it is called with each stretch alone, null
// for its layout, and the results stand side by side: no mask of T x T is made.
using Attend = std::function<at::Tensor(const std::vector<at::Tensor>&, const PackedLayout*)>;
at::Tensor attend_texts(const std::vector<at::Tensor>& tensors, const PackedLayout* layout,
                        const Attend& attend);

// queries: [B, T, H, D], the last T of S positions; keys, values: [B, S, H_kv, D]. Query head h
// reads KV head floor(h / (H / H_kv)). Result: [B, T, H, D_v], zero for a query that sees no key.
// Scale 1 / sqrt(D). Values may be wider or narrower than keys. T <= S.
at::Tensor causal_attention(const at::Tensor& queries_BTHD, const at::Tensor& keys_BSHD,
                            const at::Tensor& values_BSHD, const PackedLayout* layout = nullptr);

}  // namespace kha
