// Query heads that share a key and a value share them in memory: no pass repeats K or V.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "counting_allocator.h"
#include "modules/causal.h"

namespace kha::test {
namespace {

constexpr int64_t batch = 2, heads = 16, kv_heads = 2, width = 64;
// What attention may take beside its results: softmax sums, a mask, blocks of each thread.
constexpr int64_t workspace = 1'500'000;

// Each thread has blocks of its own: one, so that the limit holds on every machine.
struct OneThread : testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

struct Inputs {
  at::Tensor q, k, v;
  // One of K and V repeated for every query head.
  int64_t repeated_bytes() const { return static_cast<int64_t>(k.nbytes()) * (heads / kv_heads); }
};

Inputs some_inputs(int64_t queries, int64_t positions) {
  const auto make = [](int64_t length, int64_t count) {
    return at::sin(at::arange(batch * length * count * width, at::kFloat))
        .view({batch, length, count, width});
  };
  return {make(queries, heads), make(positions, kv_heads), make(positions, kv_heads) * 0.5};
}

int64_t forward_bytes(const Inputs& x) {
  const at::NoGradGuard no_grad;
  causal_attention(x.q, x.k, x.v);  // what torch allocates once is not counted
  return CountingAllocator::peak_of([&] { causal_attention(x.q, x.k, x.v); });
}

int64_t training_bytes(const Inputs& x) {
  const at::Tensor q = x.q.detach().requires_grad_(), k = x.k.detach().requires_grad_(),
                   v = x.v.detach().requires_grad_();
  const auto step = [&] {
    const at::Tensor y = causal_attention(q, k, v);
    torch::autograd::backward({y}, {at::ones_like(y)});
  };
  step();
  q.mutable_grad() = k.mutable_grad() = v.mutable_grad() = at::Tensor();
  return CountingAllocator::peak_of(step);
}

int64_t bytes_of(const at::Tensor& x) { return static_cast<int64_t>(x.nbytes()); }

TEST(GroupedHeadsMemory, Prefill) {
  const Inputs x = some_inputs(512, 512);
  ASSERT_GT(2 * x.repeated_bytes(), 2 * workspace);
  EXPECT_LT(forward_bytes(x), bytes_of(x.q) + workspace);
}

TEST(GroupedHeadsMemory, AStretchBehindAPrefill) {
  const Inputs x = some_inputs(64, 1024);
  ASSERT_GT(2 * x.repeated_bytes(), 2 * workspace);
  EXPECT_LT(forward_bytes(x), bytes_of(x.q) + workspace);
}

TEST(GroupedHeadsMemory, Decode) {
  const Inputs x = some_inputs(1, 4096);
  ASSERT_GT(2 * x.repeated_bytes(), 2 * workspace);
  EXPECT_LT(forward_bytes(x), bytes_of(x.q) + workspace);
}

// The result and its gradient, then the three gradients.
TEST(GroupedHeadsMemory, Training) {
  const Inputs x = some_inputs(512, 512);
  const int64_t results = 3 * bytes_of(x.q) + bytes_of(x.k) + bytes_of(x.v);
  EXPECT_LT(training_bytes(x), results + workspace);
}

// The limits above would show it.
TEST(GroupedHeadsMemory, RepeatedKeysAndValuesAreSeen) {
  const at::NoGradGuard no_grad;
  const Inputs x = some_inputs(512, 512);
  const auto repeated = [&](const at::Tensor& t) {
    return t.repeat_interleave(heads / kv_heads, 2);
  };
  const int64_t peak =
      CountingAllocator::peak_of([&] { causal_attention(x.q, repeated(x.k), repeated(x.v)); });
  EXPECT_GT(peak, bytes_of(x.q) + workspace);
}

}  // namespace
}  // namespace kha::test
