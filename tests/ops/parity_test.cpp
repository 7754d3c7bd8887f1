// Every operator, forward and backward, against the double reference.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ops/implementations.h"
#include "ops/operators.h"
#include "ops/tolerance.h"

namespace kha::test {
namespace {

void expect_parity(const Operator& op, const Case& c) {
  at::manual_seed(11);
  const Tensors arguments = op.arguments(c);
  const at::Tensor grad = at::randn_like(op.call(arguments));
  const Tensors found = run(op.call, arguments, grad);
  const Tensors torch = run(op.compose, arguments, grad);
  const Tensors want = op.reference(in_double(arguments), in_double({grad})[0]);
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), want[i].sizes()) << op.name << ", output " << i << ", " << c.name();
    EXPECT_LE(largest(found[i] - want[i]), allowed_error(c.dtype, torch[i], want[i]))
        << op.name << ", output " << i << ", " << c.name();
  }
}

// One thread: products this small would spend most of their time waking the others.
TEST(OpsParity, EveryOperatorOnEveryCase) {
  at::set_num_threads(1);
  for (const auto& op : all_operators()) {
    for (const auto& c : all_cases()) expect_parity(op, c);
  }
}

TEST(OpsParity, LayoutsAreWhatTheySay) {
  const at::Tensor x = at::randn({5, 3, 4});
  for (Layout layout : {Layout::heads_first, Layout::sliced}) {
    const at::Tensor other = lay_out(x, layout);
    EXPECT_TRUE(at::equal(other, x));
    EXPECT_FALSE(other.is_contiguous());
    EXPECT_EQ(other.stride(-1), 1);
  }
}

// A NaN and both infinities in x: the same results and gradients are NaN or infinite as in the
// reference, the others agree.
TEST(OpsParity, NanAndInfinityPropagateAsInTheReference) {
  for (const auto& op : all_operators()) {
    for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      at::manual_seed(12);
      Tensors arguments = op.arguments({3, 8, {4}, Layout::contiguous, dtype});
      arguments[0][0][1][2].fill_(NAN);
      arguments[0][1][0][3].fill_(INFINITY);
      arguments[0][2][2][4].fill_(-INFINITY);
      const at::Tensor grad = at::randn_like(op.call(arguments));
      const Tensors found = run(op.call, arguments, grad);
      const Tensors want = op.reference(in_double(arguments), in_double({grad})[0]);
      EXPECT_TRUE(want[0].isnan().any().item<bool>());
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(at::allclose(found[i], want[i], 1e-4, 1e-4, /*equal_nan=*/true))
            << op.name << ", output " << i << ", " << dtype << "\n"
            << found[i] << want[i];
      }
    }
  }
}

// y.sum().backward() hands every operator a gradient with all strides zero.
TEST(OpsParity, ExpandedGradient) {
  for (const auto& op : all_operators()) {
    at::manual_seed(13);
    const Tensors arguments = op.arguments({3, 8, {5}, Layout::contiguous, at::kDouble});
    const auto sizes = op.call(arguments).sizes().vec();
    const Tensors found = run(op.call, arguments, at::ones({1}, at::kDouble).expand(sizes));
    const Tensors want = op.reference(in_double(arguments), at::ones(sizes, at::kDouble));
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], want[i], 1e-12, 1e-12)) << op.name << ", output " << i;
    }
  }
}

class MapOps : public EachImplementation {};

// Sums over 4,100 rows are cut into pieces; torch's own products promise nothing of the kind.
TEST_P(MapOps, BitsDoNotDependOnThreads) {
  if (GetParam() == "aten") GTEST_SKIP() << "torch's products may depend on threads";
  for (const auto& op : {linear_operator(), gate_operator(), mlp_operator()}) {
    at::manual_seed(14);
    const Tensors arguments = op.arguments({4, 40, {1025}});
    const at::Tensor grad = at::randn_like(arguments[0]);
    at::set_num_threads(1);
    const Tensors one = run(op.call, arguments, grad);
    at::set_num_threads(2);
    const Tensors two = run(op.call, arguments, grad);
    at::set_num_threads(1);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(at::equal(one[i], two[i])) << op.name << ", output " << i;
    }
  }
}

KHA_FOR_EACH_IMPLEMENTATION(MapOps);

}  // namespace
}  // namespace kha::test
