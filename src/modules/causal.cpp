#include "modules/causal.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "modules/fused_attention.h"
#include "modules/pass_tap.h"

namespace kha {

namespace {

constexpr double never = -std::numeric_limits<double>::infinity();

bool has_padding(const PackedLayout* layout) { return layout && layout->text_BS.defined(); }

// [B, 1, S, S]: both of one document.
at::Tensor same_document(const std::vector<int64_t>& lengths, int64_t positions,
                         at::Device device) {
  const at::Tensor each = at::tensor(lengths, at::kLong).to(device);
  const at::Tensor number =
      at::repeat_interleave(at::arange(each.numel(), each.options()), each).view({-1, positions});
  return number.unsqueeze(2).eq(number.unsqueeze(1)).unsqueeze(1);
}

// Blocks that the query heads of one position are cut into: one for each KV head, or more of them
// where the threads are more.
int64_t blocks_of_one_query(int64_t batch, int64_t heads, int64_t kv_heads) {
  const int64_t group = heads / kv_heads;
  for (int64_t parts = 1; parts < group; ++parts) {
    if (group % parts == 0 && batch * kv_heads * parts >= at::get_num_threads()) {
      return kv_heads * parts;
    }
  }
  return heads;
}

// One query a head: those that share a KV head stand as rows of one product, which reads its keys
// once and not once a head.
at::Tensor attend_one(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
  const int64_t batch = queries.size(0), heads = queries.size(2), kv_heads = keys.size(2);
  const int64_t blocks = blocks_of_one_query(batch, heads, kv_heads);
  const at::Tensor q = queries.reshape({batch, blocks, heads / blocks, queries.size(3)});
  const at::Tensor y = at::scaled_dot_product_attention(
      q, keys.transpose(1, 2), values.transpose(1, 2), /*attn_mask=*/std::nullopt,
      /*dropout_p=*/0.0, /*is_causal=*/false, /*scale=*/std::nullopt, blocks != kv_heads);
  return y.reshape({batch, 1, heads, values.size(3)});
}

at::Tensor widened(const at::Tensor& x, int64_t width) {
  return x.size(3) == width ? x : at::constant_pad_nd(x, {0, width - x.size(3)});
}

// `mask`: [1 or B, 1, T, S], every query with a key; undefined: `causal` says it.
at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                  const at::Tensor& mask, bool causal) {
  // The fast path wants one width: channels of zeros change no sum.
  const int64_t wide = std::max(queries.size(3), values.size(3));
  const at::Tensor q = widened(queries, wide).transpose(1, 2),
                   k = widened(keys, wide).transpose(1, 2),
                   v = widened(values, wide).transpose(1, 2);
  const bool grouped = q.size(1) != k.size(1);
  std::optional<double> scale;
  if (wide != queries.size(3)) scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
  const auto chosen = mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt;
  const at::Tensor y =
      at::scaled_dot_product_attention(q, k, v, chosen, /*dropout_p=*/0.0, causal, scale, grouped)
          .transpose(1, 2);
  return wide == values.size(3) ? y : y.narrow(3, 0, values.size(3));
}

// A query without keys sees them all instead, so that nothing is divided by zero, and its result
// is replaced: neither the result nor a gradient is left of what it saw.
at::Tensor attend_text(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                       const PackedLayout& layout) {
  const at::Tensor mask = causal_mask(queries.size(1), keys.size(1), &layout, queries.device());
  const at::Tensor blind = mask.any(3, /*keepdim=*/true).logical_not();  // [B, 1, T, 1]
  return attend(queries, keys, values, mask.logical_or(blind), /*causal=*/false)
      .masked_fill(blind.transpose(1, 2), 0);
}

at::Tensor attend_whole(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                        const PackedLayout* layout) {
  if (has_padding(layout)) return attend_text(queries, keys, values, *layout);
  const int64_t length = queries.size(1), cached = keys.size(1);
  assert(length <= cached);
  if (length == 1 && queries.size(2) != keys.size(2) && values.size(3) == queries.size(3)) {
    return attend_one(queries, keys, values);
  }
  // One query reads its keys once: nothing to block, and packing them would double the work.
  if (length > 1) {
    if (const auto y = fused_attention(queries, keys, values)) return *y;
  }
  if (length == cached && length > 1) return attend(queries, keys, values, {}, /*causal=*/true);
  return attend(queries, keys, values, causal_mask(length, cached, nullptr, queries.device()),
                /*causal=*/false);
}

}  // namespace

at::Tensor causal_mask(int64_t queries, int64_t positions, const PackedLayout* layout,
                       at::Device device) {
  const bool documents = layout && !layout->lengths.empty();
  assert(!documents || queries == positions);
  if (queries == 1 && !documents && !has_padding(layout)) return {};
  const auto options = at::TensorOptions().dtype(at::kBool).device(device);
  at::Tensor mask = at::ones({queries, positions}, options)
                        .tril(positions - queries)
                        .view({1, 1, queries, positions});
  if (documents) mask = mask.logical_and(same_document(layout->lengths, positions, device));
  if (!has_padding(layout)) return mask;
  const at::Tensor text = layout->text_BS.unsqueeze(1).unsqueeze(2);  // [B, 1, 1, S]
  const at::Tensor own = text.narrow(3, positions - queries, queries).transpose(2, 3);
  return mask.logical_and(text).logical_and(own);
}

at::Tensor causal_softmax(const at::Tensor& scores, const PackedLayout* layout, double scale) {
  if (const PassTap* tap = current_pass_tap(); tap && tap->weighed) tap->weighed(scores, scale);
  // Scaled where it is wide: a scaled query in bfloat16 would be rounded once more.
  const at::Tensor wide = scores.to(scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor mask = causal_mask(scores.size(2), scores.size(3), layout, scores.device());
  if (!mask.defined()) return at::softmax(wide * scale, -1);
  const at::Tensor hidden = mask.logical_not();
  if (has_padding(layout)) {
    // A row of nothing but -inf gives NaN, forward and backward; both fills replace it by zero.
    return at::softmax((wide * scale).masked_fill(hidden, never), -1).masked_fill(hidden, 0);
  }
  // Scale and mask in one pass, whose backward pass copies nothing.
  const at::Tensor barred = at::zeros(hidden.sizes(), wide.options()).masked_fill_(hidden, never);
  return at::softmax(at::add(barred, wide, scale), -1);
}

at::Tensor attend_texts(const std::vector<at::Tensor>& tensors, const PackedLayout* layout,
                        const Attend& attend) {
  if (!layout || layout->lengths.empty() || has_padding(layout)) return attend(tensors, layout);
  // Split and not narrowed: the backward pass of a split is one concatenation, that of each narrow
  // a tensor of the whole size.
  std::vector<std::vector<at::Tensor>> documents(layout->lengths.size());
  for (const at::Tensor& x : tensors) {
    const auto parts = x.flatten(0, 1).split(layout->lengths);
    for (size_t i = 0; i < parts.size(); ++i) documents[i].push_back(parts[i].unsqueeze(0));
  }
  std::vector<at::Tensor> attended;
  for (const auto& document : documents) attended.push_back(attend(document, nullptr).squeeze(0));
  const at::Tensor& queries = tensors.front();
  return at::cat(attended).view({queries.size(0), queries.size(1), queries.size(2), -1});
}

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const PackedLayout* layout) {
  // Of no query there is no result; the product keeps it a function of the queries.
  if (queries.numel() == 0) {
    return at::matmul(queries, at::zeros({queries.size(3), values.size(3)}, queries.options()));
  }
  if (const PassTap* tap = current_pass_tap(); tap && tap->attended) tap->attended(queries, keys);
  return attend_texts({queries, keys, values}, layout, [](const auto& x, const auto* own) {
    return attend_whole(x[0], x[1], x[2], own);
  });
}

}  // namespace kha
