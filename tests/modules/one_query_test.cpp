// A decode step of grouped heads against each head by hand, for every cut of its queries.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>

#include "modules/causal.h"

namespace kha::test {
namespace {

constexpr int64_t width = 6, positions = 11;

at::Tensor some(at::IntArrayRef shape, double step) {
  const int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) * step + 0.3).view(shape);
}

at::Tensor by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  at::Tensor y = at::zeros_like(q);
  const int64_t group = q.size(2) / k.size(2);
  for (int64_t b = 0; b < q.size(0); ++b) {
    for (int64_t h = 0; h < q.size(2); ++h) {
      const at::Tensor keys = k[b].select(1, h / group), values = v[b].select(1, h / group);
      const at::Tensor weights = at::exp(at::mv(keys, q[b][0][h]) / std::sqrt(double(width)));
      y[b][0][h] = at::mv(values.t(), weights / weights.sum());
    }
  }
  return y;
}

TEST(OneQuery, OfEveryGroupAndCut) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 6}) {
    at::set_num_threads(threads);
    for (const auto& [heads, kv_heads] :
         {std::pair<int64_t, int64_t>{12, 1}, {12, 2}, {12, 4}, {12, 12}, {7, 1}}) {
      for (const int64_t batch : {1, 3}) {
        const at::Tensor q = some({batch, 1, heads, width}, 1.7);
        // A slice of a longer cache, as decoding reads it.
        const at::Tensor k = some({batch, positions + 4, kv_heads, width}, 0.7);
        const at::Tensor v = some({batch, positions + 4, kv_heads, width}, 2.3);
        const at::Tensor keys = k.narrow(1, 0, positions), values = v.narrow(1, 0, positions);
        const at::Tensor y = causal_attention(q, keys, values);
        ASSERT_EQ(y.sizes(), q.sizes());
        EXPECT_LT((y - by_hand(q, keys, values)).abs().max().item<double>(), 1e-12)
            << heads << " on " << kv_heads << ", " << threads << " threads";
      }
    }
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace kha::test
