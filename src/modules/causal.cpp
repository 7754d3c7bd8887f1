#include "modules/causal.h"

#include <ATen/Functions.h>

#include <cassert>

namespace kha {
namespace {

at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
  const int64_t length = queries.size(1), cached = keys.size(1);
  assert(length <= cached);
  const int64_t width = values.size(3);
  // The fast path wants one width: channels of zeros change no sum.
  const at::Tensor padded =
      width == queries.size(3) ? values : at::constant_pad_nd(values, {0, queries.size(3) - width});
  const at::Tensor q = queries.transpose(1, 2), k = keys.transpose(1, 2),
                   v = padded.transpose(1, 2);
  const bool grouped = q.size(1) != k.size(1);
  // torch's own causal flag is aligned to the top left: right only without a cache. One query sees
  // every key; anything else needs the mask.
  std::optional<at::Tensor> mask;
  if (length != cached && length != 1) {
    const auto options = at::TensorOptions().dtype(at::kBool).device(q.device());
    mask = at::ones({length, cached}, options).tril(cached - length);
  }
  const bool causal = length == cached && length != 1;
  const at::Tensor y = at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, causal,
                                                        /*scale=*/std::nullopt, grouped)
                           .transpose(1, 2);
  return width == y.size(3) ? y : y.narrow(3, 0, width);
}

at::Tensor attend_by_document(const at::Tensor& queries, const at::Tensor& keys,
                              const at::Tensor& values, const std::vector<int64_t>& lengths) {
  // Split and not narrowed: the backward pass of a split is one concatenation, that of each narrow
  // a tensor of the whole size.
  const auto parts = [&](const at::Tensor& x) { return x.flatten(0, 1).split(lengths); };
  const auto q = parts(queries), k = parts(keys), v = parts(values);
  std::vector<at::Tensor> attended;
  for (size_t i = 0; i < lengths.size(); ++i) {
    attended.push_back(attend(q[i].unsqueeze(0), k[i].unsqueeze(0), v[i].unsqueeze(0)).squeeze(0));
  }
  return at::cat(attended).view({queries.size(0), queries.size(1), queries.size(2), -1});
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const PackedLayout* layout) {
  if (layout && !layout->lengths.empty()) {
    return attend_by_document(queries, keys, values, layout->lengths);
  }
  return attend(queries, keys, values);
}

}  // namespace kha
