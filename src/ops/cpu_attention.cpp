#include "ops/cpu_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace kha::ops {
namespace {

using at::Tensor;

// Channels side by side; every other stride is free.
Tensor with_adjacent_channels(const Tensor& x) {
  return x.size(-1) == 1 || x.stride(-1) == 1 ? x : x.contiguous();
}

template <class T>
T* head_data(const Tensor& x, T* data, int64_t batch, int64_t head) {
  return data + batch * x.stride(0) + head * x.stride(2);
}

Rows<const float> head_rows(const Tensor& x, int64_t batch, int64_t head) {
  return {head_data(x, x.const_data_ptr<float>(), batch, head), x.size(1), x.size(3), x.stride(1)};
}

Rows<float> writable_rows(const Tensor& x, int64_t batch, int64_t head) {
  return {head_data(x, x.mutable_data_ptr<float>(), batch, head), x.size(1), x.size(3),
          x.stride(1)};
}

GroupRows<const float> group_rows(const Tensor& x, int64_t batch, int64_t head) {
  return {head_data(x, x.const_data_ptr<float>(), batch, head), x.stride(1), x.stride(2)};
}

GroupRows<float> writable_group(const Tensor& x, int64_t batch, int64_t head) {
  return {head_data(x, x.mutable_data_ptr<float>(), batch, head), x.stride(1), x.stride(2)};
}

// What one call works on: query heads first_head .. first_head + heads - 1, which read one key head
// of one sequence, and a range of rows.
struct Piece {
  int64_t batch, key_head, first_head, heads;
  RowRange rows;
};

class Call {
 public:
  explicit Call(const AttentionInputs& in)
      : in_(in),
        pairs_(in.queries_BTHD.size(0) * in.keys_BSHD.size(2)),
        group_(in.queries_BTHD.size(2) / in.keys_BSHD.size(2)) {}

  int64_t pairs() const { return pairs_; }  // of sequences and key heads
  int64_t group() const { return group_; }  // query heads that read one key head
  int64_t queries() const { return in_.queries_BTHD.size(1); }
  int64_t keys() const { return in_.keys_BSHD.size(1); }

  // The i-th of all cuts of `rows` rows into stretches of at most `stretch`, for every `heads`
  // heads of a group; `heads` divides the group.
  Piece piece(int64_t i, int64_t heads, int64_t rows, int64_t stretch) const {
    const int64_t stretches = (rows + stretch - 1) / stretch, parts = group_ / heads;
    const int64_t pair = i / stretches / parts, key_head = pair % in_.keys_BSHD.size(2);
    const int64_t first = i % stretches * stretch;
    return {pair / in_.keys_BSHD.size(2),
            key_head,
            key_head * group_ + i / stretches % parts * heads,
            heads,
            {first, std::min(stretch, rows - first)}};
  }
  int64_t pieces(int64_t heads, int64_t rows, int64_t stretch) const {
    return pairs_ * (group_ / heads) * ((rows + stretch - 1) / stretch);
  }

  AttentionGroup inputs(const Piece& piece) const {
    return {.queries = group_rows(in_.queries_BTHD, piece.batch, piece.first_head),
            .keys = head_rows(in_.keys_BSHD, piece.batch, piece.key_head),
            .values = head_rows(in_.values_BSHD, piece.batch, piece.key_head),
            .heads = piece.heads,
            .length = queries(),
            .scale = 1 / std::sqrt(static_cast<float>(in_.queries_BTHD.size(3)))};
  }

 private:
  const AttentionInputs& in_;
  int64_t pairs_, group_;
};

using WorkspaceSize = std::int64_t (*)(const AttentionGroup&);

// Heads, and rows of `rows`, that a call works on so that there is a piece for every thread.
struct Cut {
  int64_t heads, rows, stretch;
};

// Heads first: a stretch of queries begins with packing all the keys that it sees.
Cut cut_for_threads(const Call& call, int64_t rows, int64_t block) {
  const int64_t threads = at::get_num_threads();
  for (int64_t parts = 1; parts <= call.group(); ++parts) {
    if (call.group() % parts == 0 && call.pairs() * parts >= threads) {
      return {call.group() / parts, rows, rows};
    }
  }
  const int64_t pieces = call.pairs() * call.group(), blocks = (rows + block - 1) / block;
  const int64_t stretches = std::min(blocks, (threads + pieces - 1) / pieces);
  return {1, rows, (blocks + stretches - 1) / stretches * block};
}

// Calls work(piece, workspace) for all pieces, each by the thread that is free next: later queries
// see more keys.
template <class Work>
void for_pieces(const Call& call, const Cut& cut, WorkspaceSize size, const Work& work) {
  const int64_t count = call.pieces(cut.heads, cut.rows, cut.stretch);
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(count, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    Tensor space;
    for (int64_t i = next++; i < count; i = next++) {
      const Piece piece = call.piece(i, cut.heads, cut.rows, cut.stretch);
      const AttentionGroup group = call.inputs(piece);
      if (!space.defined()) space = at::empty({size(group)}, at::kFloat);
      work(piece, group, space.mutable_data_ptr<float>());
    }
  });
}

// The kernels check nothing.
void check(const AttentionInputs& in) {
  const Tensor &q = in.queries_BTHD, &k = in.keys_BSHD, &v = in.values_BSHD;
  const auto fits = [](bool holds, const char* what, const Tensor& x, const Tensor& beside) {
    TORCH_CHECK_VALUE(holds, "kha's causal attention: ", what, ": ", x.sizes(), " beside ",
                      beside.sizes());
  };
  fits(q.dim() == 4 && k.dim() == 4 && q.size(0) == k.size(0) && q.size(3) == k.size(3),
       "queries [B, T, H, D] and keys [B, S, H_kv, D] have one batch and one width", q, k);
  fits(v.dim() == 4 && v.sizes().slice(0, 3) == k.sizes().slice(0, 3),
       "values [B, S, H_kv, D_v] have the keys' batch, positions and heads", v, k);
  fits(k.size(2) > 0 && q.size(2) % k.size(2) == 0, "H is a multiple of H_kv", q, k);
  fits(q.numel() > 0 && q.size(1) <= k.size(1), "there are queries, the last T of S positions", q,
       k);
}

AttentionInputs readable(const AttentionInputs& in) {
  return {with_adjacent_channels(in.queries_BTHD), with_adjacent_channels(in.keys_BSHD),
          with_adjacent_channels(in.values_BSHD)};
}

// One backward pass and where it writes.
class Backward {
 public:
  Backward(const CpuKernels& kernels, const Tensor& grad, const AttentionInputs& inputs,
           const Attended& results)
      : kernels_(kernels),
        in_(readable(inputs)),
        call_(in_),
        grad_(with_adjacent_channels(grad)),
        results_(results),
        to_{at::empty(in_.queries_BTHD.sizes(), grad_.options()),
            at::empty(in_.keys_BSHD.sizes(), grad_.options()),
            at::empty(in_.values_BSHD.sizes(), grad_.options())} {}

  AttentionInputs run() const {
    const int64_t keys = call_.keys(), block = kernels_.attention_rows;
    if (call_.pairs() >= at::get_num_threads() || keys <= block) {
      run_parts({call_.group(), keys, keys}, /*of_keys=*/true, /*of_queries=*/true);
    } else {
      run_parts({call_.group(), keys, block}, /*of_keys=*/true, /*of_queries=*/false);
      run_parts({1, call_.queries(), block}, /*of_keys=*/false, /*of_queries=*/true);
    }
    return to_;
  }

 private:
  void run_parts(const Cut& cut, bool of_keys, bool of_queries) const {
    for_pieces(call_, cut, kernels_.attention_backward_workspace,
               [&](const Piece& piece, const AttentionGroup& group, float* workspace) {
                 AttentionPart part{{0, call_.keys()}, {0, call_.queries()}, of_keys, of_queries};
                 (of_keys ? part.keys : part.queries) = piece.rows;
                 kernels_.causal_attention_backward(group, results_of(piece), part,
                                                    gradients_of(piece), workspace);
               });
  }

  AttentionResults results_of(const Piece& p) const {
    const int64_t head = p.batch * grad_.size(2) + p.first_head;
    return {.grad = group_rows(grad_, p.batch, p.first_head),
            .y = group_rows(results_.y_BTHD, p.batch, p.first_head),
            .sums = results_.sums_BHT.const_data_ptr<float>() + head * call_.queries()};
  }

  AttentionGradients gradients_of(const Piece& p) const {
    return {.queries = writable_group(to_.queries_BTHD, p.batch, p.first_head),
            .keys = writable_rows(to_.keys_BSHD, p.batch, p.key_head),
            .values = writable_rows(to_.values_BSHD, p.batch, p.key_head)};
  }

  const CpuKernels& kernels_;
  AttentionInputs in_;
  Call call_;
  Tensor grad_;
  const Attended& results_;
  AttentionInputs to_;
};

}  // namespace

Attended attention_forward(const CpuKernels& kernels, const AttentionInputs& inputs) {
  check(inputs);
  const AttentionInputs in = readable(inputs);
  const Tensor& q = in.queries_BTHD;
  const int64_t length = q.size(1), heads = q.size(2);
  const Attended to{at::empty({q.size(0), length, heads, in.values_BSHD.size(3)}, q.options()),
                    at::empty({q.size(0), heads, length}, q.options())};
  float* const sums = to.sums_BHT.mutable_data_ptr<float>();
  const Call call(in);
  for_pieces(call, cut_for_threads(call, length, kernels.attention_rows),
             kernels.attention_workspace,
             [&](const Piece& piece, const AttentionGroup& group, float* workspace) {
               kernels.causal_attention(
                   group, piece.rows, writable_group(to.y_BTHD, piece.batch, piece.first_head),
                   sums + (piece.batch * heads + piece.first_head) * length, workspace);
             });
  return to;
}

AttentionInputs attention_backward(const CpuKernels& kernels, const Tensor& grad,
                                   const AttentionInputs& inputs, const Attended& results) {
  return Backward(kernels, grad, inputs, results).run();
}

}  // namespace kha::ops
