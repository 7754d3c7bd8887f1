#include "modules/causal.h"

#include <ATen/Functions.h>

#include <cassert>

namespace kha {

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values) {
  const int64_t length = queries.size(1), cached = keys.size(1);
  assert(length <= cached);
  const at::Tensor q = queries.transpose(1, 2), k = keys.transpose(1, 2),
                   v = values.transpose(1, 2);
  const bool grouped = q.size(1) != k.size(1);
  // torch's own causal flag is aligned to the top left: right only without a cache. One query sees
  // every key; anything else needs the mask.
  std::optional<at::Tensor> mask;
  if (length != cached && length != 1) {
    const auto options = at::TensorOptions().dtype(at::kBool).device(q.device());
    mask = at::ones({length, cached}, options).tril(cached - length);
  }
  const bool causal = length == cached && length != 1;
  return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, causal,
                                          /*scale=*/std::nullopt, grouped)
      .transpose(1, 2);
}

at::Tensor causal_attention_by_document(const at::Tensor& queries, const at::Tensor& keys,
                                        const at::Tensor& values,
                                        const std::vector<int64_t>& lengths) {
  // Split and not narrowed: the backward pass of a split is one concatenation, that of each narrow
  // a tensor of the whole size.
  const auto parts = [&](const at::Tensor& x) { return x.flatten(0, 1).split(lengths); };
  const auto q = parts(queries), k = parts(keys), v = parts(values);
  std::vector<at::Tensor> attended;
  for (size_t i = 0; i < lengths.size(); ++i) {
    attended.push_back(
        causal_attention(q[i].unsqueeze(0), k[i].unsqueeze(0), v[i].unsqueeze(0)).squeeze(0));
  }
  return at::cat(attended).view(queries.sizes());
}

}  // namespace kha
