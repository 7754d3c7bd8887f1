// Runs every kernel of one instruction set once, for callgrind to count (bench/counts.py):
// count_kernels SET. 101 rows of 64 values in heads of their own stride, so that whole blocks and
// what is left over are both in the count.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "kha/kernels/cpu_kernels.h"

namespace {

constexpr std::int64_t dim = 64, rows = 101, few = 3;

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float[], Free>;

// Values between -1 and 1 that need no library, at a cache line's beginning.
Floats floats(std::int64_t count) {
  const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
  Floats made(static_cast<float*>(std::aligned_alloc(64, bytes)));
  for (std::int64_t i = 0; i < count; ++i)
    made[i] = static_cast<float>(i * 37 % 101) / 50.0f - 1.0f;
  return made;
}

struct Maps {
  Floats up = floats(dim * dim), gate = floats(dim * dim), down = floats(dim * dim);
};

struct Packed {
  Floats forward, backward;

  Packed(const kha::CpuKernels& kernels, const float* matrix)
      : forward(floats(kernels.packed_size(dim))), backward(floats(kernels.packed_size(dim))) {
    kernels.pack(matrix, dim, kha::PackedFor::transposed_product, forward.get());
    kernels.pack(matrix, dim, kha::PackedFor::product, backward.get());
  }
};

void run_many_rows(const kha::CpuKernels& k, const Maps& maps) {
  const Packed up(k, maps.up.get()), gate(k, maps.gate.get()), down(k, maps.down.get());
  const kha::PackedMap map{.up = up.forward.get(),
                           .gate = gate.forward.get(),
                           .down = down.forward.get(),
                           .up_backward = up.backward.get(),
                           .gate_backward = gate.backward.get(),
                           .down_backward = down.backward.get()};
  const Floats x = floats(2 * rows * dim), grad = floats(rows * dim), y = floats(rows * dim);
  const Floats partial[3] = {floats(k.partial_size(dim)), floats(k.partial_size(dim)),
                             floats(k.partial_size(dim))};
  const kha::PartialGradients partials{
      .up = partial[0].get(), .gate = partial[1].get(), .down = partial[2].get()};
  const Floats workspace = floats(k.workspace_size(dim));
  const kha::HeadView input{x.get(), 1, 2 * dim, dim}, gradient{grad.get(), 1, dim, dim};
  const kha::RowRange all{0, rows};
  float *out = y.get(), *work = workspace.get();
  k.knock_linear(input, all, dim, map, out, work);
  k.knock_linear_backward(gradient, input, all, dim, map, out, partials, work);
  k.knock_gate(input, all, dim, map, out, work);
  k.knock_gate_backward(gradient, input, all, dim, map, out, partials, work);
  k.knock_mlp(input, all, dim, map, out, work);
  k.knock_mlp_backward(gradient, input, all, dim, map, out, partials, work);
  const Floats matrix = floats(dim * dim);
  k.sum_partials(partials.up, 1, k.partial_size(dim), dim, kha::PartialOrder::as_stored, {0, dim},
                 matrix.get());
}

void run_few_rows(const kha::CpuKernels& k, const Maps& maps) {
  const kha::PlainMap map{.up = maps.up.get(), .gate = maps.gate.get(), .down = maps.down.get()};
  const Floats x = floats(few * dim), y = floats(few * dim);
  const Floats workspace = floats(k.few_workspace_size(dim));
  const kha::HeadView input{x.get(), few, few * dim, dim};
  k.few_linear(input, few, dim, map, y.get(), workspace.get());
  k.few_gate(input, few, dim, map, y.get(), workspace.get());
  k.few_mlp(input, few, dim, map, y.get(), workspace.get());
}

void run_expert_rows(const kha::CpuKernels& k, const float* x, const float* grad, float* y,
                     float* second) {
  const Floats third = floats(rows * dim), weights = floats(rows), dweights = floats(rows);
  const kha::WeightedGates gates{x, grad, weights.get(), rows, dim};
  k.weighted_swiglu(gates, y);
  k.weighted_swiglu_backward(grad, gates, {y, second, third.get(), dweights.get()});
  const std::int64_t places[few] = {2, 0, 1};
  k.add_rows(grad, places, few, dim, y);
}

void run_layers(const kha::CpuKernels& k) {
  const Floats x = floats(rows * dim), grad = floats(rows * dim), weight = floats(dim);
  const Floats y = floats(rows * dim), second = floats(rows * dim), dweight = floats(dim);
  const Floats cosine = floats(rows * dim), sine = floats(rows * dim);
  const kha::HeadView input{x.get(), 1, dim, dim}, gradient{grad.get(), 1, dim, dim};
  const kha::RowRange all{0, rows};
  const kha::Rotation table{cosine.get(), sine.get(), rows, 1};
  constexpr float eps = 1e-6f;
  k.rms_norm(input, all, dim, weight.get(), eps, y.get());
  k.rms_norm_backward(gradient, input, all, dim, weight.get(), eps, y.get(), dweight.get());
  k.norm_rope(input, all, dim, weight.get(), eps, table, y.get());
  k.norm_rope_backward(gradient, input, all, dim, weight.get(), eps, table, y.get(), dweight.get());
  k.swiglu(input, gradient, all, dim, y.get());
  k.swiglu_backward(gradient, input, gradient, all, dim, y.get(), second.get());
  if (k.square_sum(x.get(), rows * dim) < 0) std::abort();
  run_expert_rows(k, x.get(), grad.get(), y.get(), second.get());
}

// One head of keys for two of queries, whose values are narrower than its keys.
void run_attention(const kha::CpuKernels& k) {
  constexpr std::int64_t heads = 2, values = 48;
  const Floats q = floats(heads * rows * dim), keys = floats(rows * dim), v = floats(rows * values);
  const Floats grad = floats(heads * rows * values), y = floats(heads * rows * values);
  const Floats dq = floats(heads * rows * dim), dk = floats(rows * dim), dv = floats(rows * values);
  const Floats sums = floats(heads * rows);
  const kha::AttentionGroup group{.queries = {q.get(), heads * dim, dim},
                                  .keys = {keys.get(), rows, dim, dim},
                                  .values = {v.get(), rows, values, values},
                                  .heads = heads,
                                  .length = rows,
                                  .scale = 0.125f};
  const Floats workspace =
      floats(k.attention_workspace(group) + k.attention_backward_workspace(group));
  constexpr std::int64_t stride = heads * values;
  k.causal_attention(group, {0, rows}, {y.get(), stride, values}, sums.get(), workspace.get());
  k.causal_attention_backward(
      group, {{grad.get(), stride, values}, {y.get(), stride, values}, sums.get()},
      {{0, rows}, {0, rows}},
      {{dq.get(), heads * dim, dim}, {dk.get(), rows, dim, dim}, {dv.get(), rows, values, values}},
      workspace.get());
}

void run_head_loss(const kha::CpuKernels& k) {
  const Floats logits = floats(few * 1001), scales = floats(few), losses = floats(few);
  const std::int64_t targets[few] = {0, 500, -100};
  k.head_loss(logits.get(), few, 1001, targets, scales.get(), losses.get());
}

}  // namespace

int main(int argc, char** argv) {
  const auto set = kha::parse_instruction_set(argc == 2 ? argv[1] : "");
  if (!set || !kha::is_usable(*set)) {
    std::fprintf(stderr, "usage: count_kernels SET, a set that this processor has\n");
    return 2;
  }
  const kha::CpuKernels& kernels = kha::cpu_kernels(*set);
  const Maps maps;
  run_many_rows(kernels, maps);
  run_few_rows(kernels, maps);
  run_layers(kernels);
  run_head_loss(kernels);
  run_attention(kernels);
}
