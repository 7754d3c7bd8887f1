#include "ops/cpu_sums.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace kha::ops {

double square_sum(const CpuKernels& kernels, const at::Tensor& x) {
  constexpr int64_t piece = 65536;
  const at::Tensor held = x.contiguous();
  const float* const from = held.const_data_ptr<float>();
  const int64_t count = held.numel();
  std::vector<double> sums((count + piece - 1) / piece);
  at::parallel_for(0, static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] = kernels.square_sum(from + i * piece, std::min(piece, count - i * piece));
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace kha::ops
