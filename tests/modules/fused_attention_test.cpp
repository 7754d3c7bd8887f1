// Attention by kha's kernels against the same call in double, which composes torch's operators
// (and is tested against the formula in tests/model/attention_pitfalls_test.cpp).
#include "modules/fused_attention.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "counting_allocator.h"
#include "kha/ops/cpu_implementation.h"
#include "modules/causal.h"

namespace kha::test {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Shape {
  int64_t batch, length, positions, heads, kv_heads, width, value_width;
};

Tensors some_inputs(const Shape& s, at::ScalarType type = at::kFloat) {
  at::manual_seed(3);
  return {at::randn({s.batch, s.length, s.heads, s.width}, at::kDouble).to(type),
          at::randn({s.batch, s.positions, s.kv_heads, s.width}, at::kDouble).to(type),
          at::randn({s.batch, s.positions, s.kv_heads, s.value_width}, at::kDouble).to(type)};
}

// The result and the gradients of queries, keys and values.
Tensors attended(const Tensors& inputs, const Tensor& grad, const PackedLayout* layout = nullptr) {
  Tensors leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_());
  const Tensor y = causal_attention(leaves[0], leaves[1], leaves[2], layout);
  torch::autograd::backward({y}, {grad});
  return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

Tensors in_double(const Tensors& tensors) {
  Tensors wide;
  for (const Tensor& x : tensors) wide.push_back(x.to(at::kDouble));
  return wide;
}

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

void expect_near(const Tensors& found, const Tensors& right, const std::string& where) {
  for (size_t i = 0; i < right.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), right[i].sizes()) << where << ", tensor " << i;
    EXPECT_TRUE(largest(found[i] - right[i]) <= 5e-6 * std::max(1.0, largest(right[i])))
        << where << ", tensor " << i << ": off by " << largest(found[i] - right[i]);
  }
}

Tensor some_grad(const Shape& s) {
  return at::randn({s.batch, s.length, s.heads, s.value_width}, at::kFloat);
}

struct FusedAttention : testing::Test {
  void SetUp() override {
    if (!ops::chosen_cpu_kernels()) GTEST_SKIP() << "this processor has none of kha's kernels";
  }
};

// Groups of every cut: enough key heads for every piece, one with all queries, some for each.
const std::vector<Shape> shapes{{2, 7, 7, 4, 2, 6, 6},      {16, 3, 3, 2, 1, 8, 8},
                                {1, 30, 30, 12, 1, 6, 4},   {3, 5, 40, 8, 2, 20, 24},
                                {1, 2, 9, 6, 6, 16, 16},    {2, 120, 130, 6, 2, 24, 16},
                                {1, 250, 300, 2, 1, 24, 24}};

TEST_F(FusedAttention, EveryShapeIsWhatDoubleHas) {
  for (const Shape& s : shapes) {
    const Tensors in = some_inputs(s);
    ASSERT_TRUE(fused_attention(in[0], in[1], in[2]));
    const Tensor grad = some_grad(s);
    const std::string where = std::to_string(s.length) + " of " + std::to_string(s.positions);
    expect_near(attended(in, grad), attended(in_double(in), grad.to(at::kDouble)), where);
    const at::NoGradGuard no_grad;
    const Tensor y = causal_attention(in[0], in[1], in[2]);
    EXPECT_FALSE(y.requires_grad());
    expect_near(
        {y},
        {causal_attention(in[0].to(at::kDouble), in[1].to(at::kDouble), in[2].to(at::kDouble))},
        where);
  }
}

// Heads in front of positions, channels that are not side by side, a slice of a longer cache, and a
// gradient with all strides zero.
TEST_F(FusedAttention, StridesChangeNothing) {
  const Tensors in = some_inputs({2, 9, 9, 4, 2, 6, 6});
  const Tensors strided{in[0].transpose(1, 2).contiguous().transpose(1, 2),
                        at::cat({in[1], in[1]}, 1).narrow(1, 9, 9),
                        in[2].permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0})};
  const Tensor ones = at::ones({1, 1, 1, 1}).expand({2, 9, 4, 6});
  expect_near(attended(strided, ones), attended(in, ones.contiguous()), "strides");
}

TEST_F(FusedAttention, DocumentsSeeThemselvesAlone) {
  const Tensors in = some_inputs({2, 10, 10, 4, 2, 8, 8});
  PackedLayout layout;
  layout.lengths = {3, 7, 1, 9};
  const Tensor grad = some_grad({2, 10, 10, 4, 2, 8, 8});
  expect_near(attended(in, grad, &layout), attended(in_double(in), grad.to(at::kDouble), &layout),
              "documents");
}

TEST_F(FusedAttention, BitsDoNotDependOnThreads) {
  const int before = at::get_num_threads();
  for (const Shape& s : shapes) {
    const Tensors in = some_inputs(s);
    const Tensor grad = some_grad(s);
    at::set_num_threads(1);
    const Tensors one = attended(in, grad);
    for (const int threads : {3, 5, 7}) {  // parts of a group, and stretches of its queries
      at::set_num_threads(threads);
      const Tensors many = attended(in, grad);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(at::equal(one[i], many[i])) << i << ", " << threads << " threads";
      }
    }
  }
  at::set_num_threads(before);
}

TEST_F(FusedAttention, OtherTypesAndTheSwitchComposeTorch) {
  const Shape s{1, 4, 4, 2, 2, 8, 8};
  for (const auto type : {at::kDouble, at::kBFloat16}) {
    const Tensors in = some_inputs(s, type);
    EXPECT_FALSE(fused_attention(in[0], in[1], in[2]));
  }
  const Tensors in = some_inputs(s);
  EXPECT_FALSE(fused_attention(in[0], in[1].to(at::kBFloat16), in[2]));
  const std::string before = ops::cpu_implementation();
  ops::set_cpu_implementation("aten");
  EXPECT_FALSE(fused_attention(in[0], in[1], in[2]));
  ops::set_cpu_implementation(before);
}

// What was chosen for the forward pass is what its numbers belong to.
TEST_F(FusedAttention, TheSwitchMayTurnBetweenThePasses) {
  const Tensors in = some_inputs({2, 9, 9, 4, 2, 6, 6});
  const Tensor q = in[0].detach().requires_grad_();
  const Tensor y = causal_attention(q, in[1], in[2]);
  const std::string before = ops::cpu_implementation();
  ops::set_cpu_implementation("aten");
  torch::autograd::backward({y}, {at::ones_like(y)});
  ops::set_cpu_implementation(before);
  expect_near({q.grad()}, {attended(in, at::ones_like(y))[1]}, "switched");
}

TEST_F(FusedAttention, SecondDerivativesAreRefused) {
  const Tensors in = some_inputs({1, 4, 4, 2, 2, 8, 8});
  const Tensor q = in[0].detach().requires_grad_();
  const Tensor y = causal_attention(q, in[1], in[2]);
  try {
    torch::autograd::grad({y.sum()}, {q}, {}, std::nullopt, /*create_graph=*/true);
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& e) {
    const std::string message = e.what_without_backtrace();
    EXPECT_NE(message.find("second derivatives are not implemented"), std::string::npos) << message;
    EXPECT_NE(message.find("set_cpu_implementation(\"aten\")"), std::string::npos) << message;
  }
}

TEST_F(FusedAttention, ShapesThatDoNotFitAreRefused) {
  const Tensors in = some_inputs({2, 4, 4, 4, 2, 8, 8});
  const auto refuses = [&](const Tensor& q, const Tensor& k, const Tensor& v, const char* words) {
    try {
      fused_attention(q, k, v);
      ADD_FAILURE() << "nothing was thrown: " << words;
    } catch (const c10::ValueError& e) {
      const std::string message = e.what_without_backtrace();
      EXPECT_NE(message.find(words), std::string::npos) << message;
    }
  };
  refuses(in[0].narrow(0, 0, 1), in[1], in[2], "one batch and one width: [1, 4, 4, 8] beside");
  refuses(in[0].narrow(3, 0, 6), in[1], in[2], "one batch and one width");
  refuses(in[0], in[1], in[2].narrow(1, 0, 3), "the keys' batch, positions and heads");
  refuses(in[0].narrow(2, 0, 3), in[1], in[2], "H is a multiple of H_kv");
  refuses(in[0], in[1].narrow(1, 0, 3), in[2].narrow(1, 0, 3), "the last T of S positions");
  refuses(in[0].narrow(0, 0, 0), in[1].narrow(0, 0, 0), in[2].narrow(0, 0, 0), "there are queries");
}

// Values that are narrower than keys (MLA) are not widened: forward there are the result, the sums
// and a workspace.
TEST_F(FusedAttention, NarrowValuesAreNotWidened) {
  const Shape s{1, 512, 512, 16, 16, 192, 128};
  const Tensors in = some_inputs(s);
  const at::NoGradGuard no_grad;
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto pass = [&] { causal_attention(in[0], in[1], in[2]); };
  pass();
  const int64_t peak = CountingAllocator::peak_of(pass);
  at::set_num_threads(before);
  const int64_t result = 4 * 512 * 16 * 128, workspace = 1'500'000;
  ASSERT_GT(4 * 512 * 16 * (192 - 128), workspace);
  EXPECT_LT(peak, result + workspace);
}

}  // namespace
}  // namespace kha::test
