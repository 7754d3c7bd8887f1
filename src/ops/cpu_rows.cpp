#include "ops/cpu_rows.h"

#include <optional>

#include "kha/ops/cpu_implementation.h"

namespace kha::ops {
namespace {

using at::Tensor;

// Leading dimensions as one: the stride between outer positions, where there is a single one.
std::optional<int64_t> outer_stride(const Tensor& x) {
  int64_t stride = 0, count = 1;  // of the dimensions seen so far, from the inside
  for (int64_t dim = x.dim() - 3; dim >= 0; --dim) {
    if (x.size(dim) == 1) continue;
    if (count == 1) {
      stride = x.stride(dim);
    } else if (x.stride(dim) != stride * count) {
      return std::nullopt;
    }
    count *= x.size(dim);
  }
  return stride;
}

}  // namespace

const CpuKernels* kernels_for(const Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat ? chosen_cpu_kernels() : nullptr;
}

HeadView head_rows(const Tensor& x, Tensor& holder) {
  const bool adjacent = x.size(-1) == 1 || x.stride(-1) == 1;
  const std::optional<int64_t> outer = adjacent ? outer_stride(x) : std::nullopt;
  holder = outer ? x : x.contiguous();
  return {.data = holder.const_data_ptr<float>(),
          .heads = holder.size(-2),
          .outer_stride = outer ? *outer : *outer_stride(holder),
          .head_stride = holder.stride(-2)};
}

}  // namespace kha::ops
