// The reference head loss: a worked example, finite differences, rows that are not counted, NaN.
#include "kernels/finite_differences.h"
#include "kha/kernels/reference_layers.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct Head {
  Values hidden, weight;
  std::vector<std::int64_t> targets;
  std::int64_t width;

  auto vocabulary() const { return static_cast<std::int64_t>(weight.size()) / width; }
  auto hidden_rows() const {
    return adjacent_rows(hidden.data(), static_cast<std::int64_t>(targets.size()), width);
  }
  auto weight_rows() const { return adjacent_rows(weight.data(), vocabulary(), width); }

  Values losses() const {
    Values result(targets.size(), nan_value), workspace(vocabulary());
    ref::head_loss(hidden_rows(), weight_rows(), targets.data(), result.data(), workspace.data());
    return result;
  }
};

struct HeadGradients {
  Values hidden, weight;
};

HeadGradients gradients_of(const Head& head, const Values& grad) {
  HeadGradients g{Values(head.hidden.size(), nan_value), Values(head.weight.size(), nan_value)};
  Values workspace(head.vocabulary());
  const auto rows = static_cast<std::int64_t>(head.targets.size());
  ref::head_loss_backward(grad.data(), head.hidden_rows(), head.weight_rows(), head.targets.data(),
                          adjacent_rows(g.hidden.data(), rows, head.width),
                          adjacent_rows(g.weight.data(), head.vocabulary(), head.width),
                          workspace.data());
  return g;
}

Head random_head(std::vector<std::int64_t> targets) {
  const auto rows = static_cast<std::int64_t>(targets.size());
  return {random_values(rows * 3, 1), random_values(5 * 3, 2), std::move(targets), 3};
}

// z = [ln 3, 0]: softmax [3/4, 1/4].
TEST(ReferenceHeadLoss, ByHand) {
  const double ln3 = std::log(3.0);
  const Head head{{ln3, ln3}, {1, 0}, {0, 1}, 1};
  EXPECT_NEAR(head.losses()[0], std::log(4.0 / 3), 1e-15);
  EXPECT_NEAR(head.losses()[1], std::log(4.0), 1e-15);
  const HeadGradients g = gradients_of({{ln3}, {1, 0}, {1}, 1}, {2});
  EXPECT_NEAR(g.weight[0], 2 * 0.75 * ln3, 1e-15);
  EXPECT_NEAR(g.weight[1], -2 * 0.75 * ln3, 1e-15);
  EXPECT_NEAR(g.hidden[0], 2 * 0.75, 1e-15);
}

TEST(ReferenceHeadLoss, Gradients) {
  Head head = random_head({4, ref::not_counted, 0, 2});
  const Values grad = random_values(4, 3);
  const HeadGradients g = gradients_of(head, grad);
  const auto loss = [&] { return dot(grad, head.losses()); };
  expect_gradient("hidden", head.hidden, g.hidden, loss);
  expect_gradient("weight", head.weight, g.weight, loss);
}

TEST(ReferenceHeadLoss, LargeLogitsDoNotOverflow) {
  const Head head{{1000}, {1, 0, -1}, {1}, 1};
  EXPECT_EQ(head.losses()[0], 1000);
}

TEST(ReferenceHeadLoss, UncountedRowsAreZeroWhateverTheyHold) {
  Head head = random_head({ref::not_counted, 1});
  head.hidden[0] = nan_value;
  EXPECT_EQ(head.losses()[0], 0);
  const HeadGradients g = gradients_of(head, {1, 1});
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(g.hidden[i], 0);
  for (const double value : g.weight) EXPECT_TRUE(std::isfinite(value));
}

TEST(ReferenceHeadLoss, NanPropagates) {
  Head head = random_head({0, 1});
  head.hidden[4] = nan_value;
  EXPECT_TRUE(std::isfinite(head.losses()[0]) && std::isnan(head.losses()[1]));
  const HeadGradients g = gradients_of(head, {1, 1});
  EXPECT_TRUE(std::isfinite(g.hidden[0]) && std::isnan(g.hidden[3]) && std::isnan(g.weight[0]));
}

TEST(ReferenceHeadLoss, NoRowsGiveAZeroWeightGradient) {
  const HeadGradients g = gradients_of({{}, {1, 2, 3, 4}, {}, 2}, {});
  EXPECT_EQ(g.weight, Values(4, 0.0));
}

}  // namespace
}  // namespace kha::test
