// The feed-forward: torch's own composition, and what it keeps for backward.
#include "modules/feed_forward.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "counting_allocator.h"

namespace kha::test {
namespace {

constexpr int64_t width = 96, inner = 256, tokens = 512;

struct Weights {
  at::Tensor gate, up, down;
};

Weights some_weights(at::ScalarType type) {
  at::manual_seed(3);
  const auto make = [&](int64_t out, int64_t in) {
    return (at::randn({out, in}, at::kDouble) / 10).to(type).requires_grad_();
  };
  return {make(inner, width), make(inner, width), make(width, inner)};
}

FeedForward module_of(const Weights& w) {
  Parameters parameters;
  parameters.add("gate_proj.weight", w.gate);
  parameters.add("up_proj.weight", w.up);
  parameters.add("down_proj.weight", w.down);
  return FeedForward(parameters, "");
}

TEST(FeedForward, GradientsAreThoseOfTheComposition) {
  const Weights ours = some_weights(at::kDouble), theirs = some_weights(at::kDouble);
  const at::Tensor x = at::randn({2, 7, width}, at::kDouble), grad = at::randn_like(x);
  const at::Tensor x_ours = x.clone().requires_grad_(), x_theirs = x.clone().requires_grad_();
  module_of(ours)(x_ours).backward(grad);
  at::linear(at::silu(at::linear(x_theirs, theirs.gate)) * at::linear(x_theirs, theirs.up),
             theirs.down)
      .backward(grad);
  const std::vector<std::pair<at::Tensor, at::Tensor>> pairs{
      {x_ours, x_theirs}, {ours.gate, theirs.gate}, {ours.up, theirs.up}, {ours.down, theirs.down}};
  for (const auto& [a, b] : pairs) EXPECT_TRUE(at::allclose(a.grad(), b.grad(), 1e-12, 1e-12));
}

TEST(FeedForward, AFrozenMatrixGetsNoGradient) {
  const Weights w = some_weights(at::kFloat);
  w.down.requires_grad_(false);
  module_of(w)(at::randn({1, 4, width})).sum().backward();
  EXPECT_FALSE(w.down.grad().defined());
  EXPECT_TRUE(w.up.grad().defined());
}

TEST(FeedForward, KeepsTheTwoInnerProductsAndNotTheThird) {
  const Weights w = some_weights(at::kFloat);
  const FeedForward module = module_of(w);
  const at::Tensor x = at::randn({1, tokens, width});
  module(x);  // what the library keeps for itself is there from here on
  at::Tensor y;
  int64_t kept = 0;
  CountingAllocator::peak_of([&] {
    y = module(x);
    kept = CountingAllocator::live;
  });
  const int64_t least = tokens * (2 * inner + width) * 4;
  EXPECT_GE(kept, least);
  EXPECT_LE(kept, least + least / 8);
}

}  // namespace
}  // namespace kha::test
