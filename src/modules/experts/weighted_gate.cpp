#include "modules/experts/weighted_gate.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include "kha/ops/layers.h"
#include "ops/cpu_rows.h"

namespace kha {
namespace {

using at::Tensor;

WeightedGates of_rows(const Tensor& gate, const Tensor& up, const Tensor& weights, int64_t begin,
                      int64_t end) {
  const int64_t width = gate.size(1), first = begin * width;
  return {.gate = gate.const_data_ptr<float>() + first,
          .up = up.const_data_ptr<float>() + first,
          .weights = weights.const_data_ptr<float>() + begin,
          .rows = end - begin,
          .width = width};
}

// A group that is alone shares its rows among the threads; within a shared one this runs in place.
template <class Work>
void for_rows(const Tensor& rows, const Work& work) {
  at::parallel_for(0, rows.size(0), ops::thread_grain(rows.size(1)), work);
}

WeightedSwigluBackward composed(const Tensor& grad, const Tensor& gate, const Tensor& up,
                                const Tensor& weights) {
  const auto wide = grad.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor inner = ops::swiglu(gate, up), weight = weights.unsqueeze(1);
  const Tensor dweights = (grad * inner).sum(1, /*keepdim=*/false, wide);
  const auto [dgate, dup] = ops::swiglu_backward(grad * weight, gate, up);
  return {inner * weight, dgate, dup, dweights};
}

}  // namespace

Tensor weighted_swiglu(const Tensor& gate, const Tensor& up, const Tensor& weights) {
  const CpuKernels* kernels = ops::kernels_for(gate);
  if (!kernels) return ops::swiglu(gate, up).mul_(weights.unsqueeze(1));
  Tensor y = at::empty_like(gate);
  for_rows(gate, [&](int64_t begin, int64_t end) {
    kernels->weighted_swiglu(of_rows(gate, up, weights, begin, end),
                             y.mutable_data_ptr<float>() + begin * y.size(1));
  });
  return y;
}

WeightedSwigluBackward weighted_swiglu_backward(const Tensor& grad, const Tensor& gate,
                                                const Tensor& up, const Tensor& weights) {
  const CpuKernels* kernels = ops::kernels_for(gate);
  if (!kernels) return composed(grad, gate, up, weights);
  WeightedSwigluBackward to{at::empty_like(gate), at::empty_like(gate), at::empty_like(gate),
                            at::empty_like(weights)};
  for_rows(gate, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * gate.size(1);
    kernels->weighted_swiglu_backward(grad.const_data_ptr<float>() + first,
                                      of_rows(gate, up, weights, begin, end),
                                      {.y = to.y_nf.mutable_data_ptr<float>() + first,
                                       .gate = to.dgate_nf.mutable_data_ptr<float>() + first,
                                       .up = to.dup_nf.mutable_data_ptr<float>() + first,
                                       .weights = to.dweights_n.mutable_data_ptr<float>() + begin});
  });
  return to;
}

}  // namespace kha
