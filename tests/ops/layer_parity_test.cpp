// Norm, rotation and SwiGLU by every implementation, forward and backward, against the reference.
#include <ATen/Parallel.h>

#include "ops/implementations.h"
#include "ops/layer_operators.h"
#include "ops/tolerance.h"

namespace kha::test {
namespace {

class LayerOps : public EachImplementation {
 protected:
  void SetUp() override {
    EachImplementation::SetUp();
    at::set_num_threads(1);
  }
};
KHA_FOR_EACH_IMPLEMENTATION(LayerOps);

void expect_parity(const LayerOperator& op, const LayerCase& c) {
  at::manual_seed(41);
  const Tensors arguments = op.arguments(c);
  const at::Tensor grad = at::randn_like(op.call(arguments));
  const Tensors found = widened(run_layer(op, op.call, arguments, grad));
  const Tensors torch = widened(run_layer(op, op.compose, arguments, grad));
  const Tensors want = op.reference(widened(arguments), widened({grad})[0]);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), want[i].sizes()) << op.name << ", output " << i << ", " << c.name();
    // Negated, so that a NaN fails.
    EXPECT_TRUE(largest(found[i] - want[i]) <= allowed_error(c.dtype, torch[i], want[i]))
        << op.name << ", output " << i << ", " << c.name() << ": off by "
        << largest(found[i] - want[i]) << " of " << allowed_error(c.dtype, torch[i], want[i]);
  }
}

TEST_P(LayerOps, ParityWithTheReference) {
  for (const auto& op : all_layers()) {
    for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      for (Layout layout : {Layout::contiguous, Layout::heads_first, Layout::sliced}) {
        for (const auto& shape : op.shapes) expect_parity(op, {shape, layout, dtype});
      }
    }
  }
}

// A NaN and both infinities, each in a row of its own.
TEST_P(LayerOps, NanAndInfinityPropagateAsInTheReference) {
  for (const auto& op : all_layers()) {
    at::manual_seed(42);
    Tensors arguments = op.arguments({{2, 3, 2, 34}});
    arguments[0][0][1][1][2].fill_(NAN);
    arguments[0][1][0][0][3].fill_(INFINITY);
    arguments[0][1][2][0][33].fill_(-INFINITY);
    const at::Tensor grad = at::randn_like(op.call(arguments));
    const Tensors found = widened(run_layer(op, op.call, arguments, grad));
    const Tensors want = op.reference(widened(arguments), widened({grad})[0]);
    EXPECT_TRUE(want[0].isnan().any().item<bool>());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], want[i], 1e-4, 1e-4, /*equal_nan=*/true))
          << op.name << ", output " << i;
    }
  }
}

TEST_P(LayerOps, ValuesFarFromOne) {
  for (const auto& op : all_layers()) {
    for (const double scale : {1e-12, 1e12}) {
      at::manual_seed(43);
      Tensors arguments = op.arguments({{2, 3, 2, 34}});
      arguments[0].mul_(scale);
      const at::Tensor grad = at::randn_like(op.call(arguments));
      const Tensors found = widened(run_layer(op, op.call, arguments, grad));
      const Tensors want = op.reference(widened(arguments), widened({grad})[0]);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(largest(found[i] - want[i]) <= 1e-5 * largest(want[i]) + 1e-30)
            << op.name << ", output " << i << ", scale " << scale;
      }
    }
  }
}

// y.sum().backward() hands every operator a gradient with all strides zero.
TEST_P(LayerOps, ExpandedGradient) {
  for (const auto& op : all_layers()) {
    at::manual_seed(44);
    const LayerCase c{{2, 3, 2, 34}};
    const Tensors arguments = op.arguments(c);
    const Tensors found = widened(run_layer(op, op.call, arguments, at::ones({1}).expand(c.shape)));
    const Tensors want = op.reference(widened(arguments), at::ones(c.shape, at::kDouble));
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], want[i], 1e-4, 1e-5)) << op.name << ", output " << i;
    }
  }
}

TEST_P(LayerOps, BitsDoNotDependOnThreads) {
  for (const auto& op : all_layers()) {
    at::manual_seed(45);
    const Tensors arguments = op.arguments({{4, 64, 8, 34}});
    const at::Tensor grad = at::randn_like(op.call(arguments));
    const Tensors one = run_layer(op, op.call, arguments, grad);
    at::set_num_threads(2);
    const Tensors two = run_layer(op, op.call, arguments, grad);
    at::set_num_threads(1);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(at::equal(one[i], two[i])) << op.name << ", output " << i;
    }
  }
}

}  // namespace
}  // namespace kha::test
