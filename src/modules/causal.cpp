#include "modules/causal.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cassert>
#include <limits>

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
  if (length != cached && length != 1) mask = causal_mask(length, cached, q.options());
  const bool causal = length == cached && length != 1;
  const at::Tensor y = at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, causal,
                                                        /*scale=*/std::nullopt, grouped)
                           .transpose(1, 2);
  return width == y.size(3) ? y : y.narrow(3, 0, width);
}

}  // namespace

at::Tensor causal_mask(int64_t queries, int64_t positions, const at::TensorOptions& options) {
  return at::ones({queries, positions}, options.dtype(at::kBool)).tril(positions - queries);
}

at::Tensor causal_softmax(const at::Tensor& scores) {
  const int64_t queries = scores.size(2), positions = scores.size(3);
  at::Tensor wide = scores.to(scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  if (queries > 1) {
    // Added and not filled in: the backward pass of a sum copies nothing.
    const at::Tensor seen = causal_mask(queries, positions, wide.options());
    wide = wide + at::zeros({queries, positions}, wide.options())
                      .masked_fill_(seen.logical_not(), -std::numeric_limits<double>::infinity());
  }
  return at::softmax(wide, -1);
}

at::Tensor attend_texts(const std::vector<at::Tensor>& tensors, const PackedLayout* layout,
                        const Attend& attend) {
  if (!layout || layout->lengths.empty()) return attend(tensors);
  // Split and not narrowed: the backward pass of a split is one concatenation, that of each narrow
  // a tensor of the whole size.
  std::vector<std::vector<at::Tensor>> documents(layout->lengths.size());
  for (const at::Tensor& x : tensors) {
    const auto parts = x.flatten(0, 1).split(layout->lengths);
    for (size_t i = 0; i < parts.size(); ++i) documents[i].push_back(parts[i].unsqueeze(0));
  }
  std::vector<at::Tensor> attended;
  for (const auto& document : documents) attended.push_back(attend(document).squeeze(0));
  const at::Tensor& queries = tensors.front();
  return at::cat(attended).view({queries.size(0), queries.size(1), queries.size(2), -1});
}

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const PackedLayout* layout) {
  return attend_texts({queries, keys, values}, layout,
                      [](const auto& x) { return attend(x[0], x[1], x[2]); });
}

}  // namespace kha
