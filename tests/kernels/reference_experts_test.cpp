// The reference mixture: worked examples, finite differences of every part.
#include "kha/kernels/reference_experts.h"

#include "kernels/finite_differences.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;
using Numbers = std::vector<std::int64_t>;

template <class T>
auto rows_of(std::vector<T>& values, std::int64_t width) {
  return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / width, width);
}

struct Choice {
  Numbers chosen;
  Values weights;
};

Choice route(Values logits, std::int64_t experts, std::int64_t k, const ref::RouterRule& rule) {
  const auto tokens = static_cast<std::int64_t>(logits.size()) / experts;
  Choice choice{Numbers(tokens * k), Values(tokens * k)};
  Values workspace(experts);
  ref::route(rows_of(logits, experts), rule, rows_of(choice.chosen, k), rows_of(choice.weights, k),
             workspace.data());
  return choice;
}

// Scores 1/2, 3/4, 1/4: the weights of the two best are 3/5 and 2/5.
TEST(ReferenceRouter, SigmoidByHand) {
  const Choice choice = route({0, std::log(3), -std::log(3)}, 3, 2, {});
  EXPECT_EQ(choice.chosen, (Numbers{1, 0}));
  EXPECT_NEAR(choice.weights[0], 0.6, 1e-15);
  EXPECT_NEAR(choice.weights[1], 0.4, 1e-15);
}

// The bias chooses, the score weighs.
TEST(ReferenceRouter, BiasIsOfTheChoiceAlone) {
  const Values bias{0, 0, 1};
  const Choice choice =
      route({0, std::log(3), -std::log(3)}, 3, 2, {.bias = bias.data(), .normalise = false});
  EXPECT_EQ(choice.chosen, (Numbers{2, 1}));
  EXPECT_NEAR(choice.weights[0], 0.25, 1e-15);
  EXPECT_NEAR(choice.weights[1], 0.75, 1e-15);
}

TEST(ReferenceRouter, SoftmaxByHand) {
  const ref::RouterRule rule{.softmax = true, .normalise = false, .scaling = 2};
  const Choice choice = route({0, std::log(2), 0}, 3, 2, rule);
  EXPECT_EQ(choice.chosen, (Numbers{1, 0}));  // of the two equal ones the lower
  EXPECT_NEAR(choice.weights[0], 1.0, 1e-15);
  EXPECT_NEAR(choice.weights[1], 0.5, 1e-15);
}

TEST(ReferenceRouter, Gradients) {
  constexpr std::int64_t tokens = 4, experts = 5, k = 3;
  for (const bool softmax : {false, true}) {
    for (const bool normalise : {false, true}) {
      Values logits = random_values(tokens * experts, 1);
      const Values bias = random_values(experts, 2);
      const ref::RouterRule rule{
          .softmax = softmax, .bias = bias.data(), .normalise = normalise, .scaling = 1.7};
      Values grad = random_values(tokens * k, 3), dlogits(logits.size()), workspace(2 * experts);
      Choice choice = route(logits, experts, k, rule);
      ref::route_backward(rows_of(grad, k), rows_of(logits, experts), rule,
                          rows_of(choice.chosen, k), rows_of(dlogits, experts), workspace.data());
      expect_gradient("logits", logits, dlogits,
                      [&] { return dot(grad, route(logits, experts, k, rule).weights); });
    }
  }
}

// Equal scores and an even load: exactly one, whatever the load of one side alone.
TEST(ReferenceBalance, AnEvenLoadIsOne) {
  Values logits(3 * 4, 0.7), workspace(4);
  const Values even(4, 0.25), uneven{1, 0, 0, 0};
  for (const bool softmax : {false, true}) {
    EXPECT_NEAR(ref::balance_loss(rows_of(logits, 4), softmax, even.data(), workspace.data()), 1,
                1e-15);
    EXPECT_NEAR(ref::balance_loss(rows_of(logits, 4), softmax, uneven.data(), workspace.data()), 1,
                1e-15);
  }
  logits = {9, -9, -9, -9};
  EXPECT_GT(ref::balance_loss(rows_of(logits, 4), true, uneven.data(), workspace.data()), 3.9);
}

TEST(ReferenceBalance, Gradients) {
  Values logits = random_values(3 * 4, 4), workspace(8);
  const Values share{0.1, 0.2, 0.3, 0.4};
  for (const bool softmax : {false, true}) {
    Values gradient(logits.size(), 0.0);
    ref::add_balance_gradient(0.5, rows_of(logits, 4), softmax, share.data(), rows_of(gradient, 4),
                              workspace.data());
    expect_gradient("logits", logits, gradient, [&] {
      return 0.5 * ref::balance_loss(rows_of(logits, 4), softmax, share.data(), workspace.data());
    });
  }
}

TEST(ReferenceRouterZ, ByHandAndGradients) {
  Values two{0, 0};
  EXPECT_NEAR(ref::router_z_loss(rows_of(two, 2)), std::log(2) * std::log(2), 1e-15);
  Values logits = random_values(3 * 4, 5), gradient(logits.size(), 0.0);
  ref::add_router_z_gradient(0.5, rows_of(logits, 4), rows_of(gradient, 4));
  expect_gradient("logits", logits, gradient,
                  [&] { return 0.5 * ref::router_z_loss(rows_of(logits, 4)); });
}

// Four experts, of which the second has no token.
struct Case {
  static constexpr std::int64_t tokens = 3, k = 2, d = 4, f = 3, experts = 4;
  Values x = random_values(tokens * d, 6), weights = random_values(tokens * k, 7);
  Values gate = random_values(experts * f * d, 8), up = random_values(experts * f * d, 9);
  Values down = random_values(experts * f * d, 10);
  Numbers chosen{0, 3, 2, 0, 3, 2};

  Values y() {
    Values result(tokens * d), workspace(2 * f + d);
    ref::experts(rows_of(x, d), rows_of(chosen, k), rows_of(weights, k),
                 {f, gate.data(), up.data(), down.data()}, rows_of(result, d), workspace.data());
    return result;
  }
};

TEST(ReferenceExperts, AnExpertIsASwiGlu) {
  Case c;
  c.weights = {1, 0, 1, 0, 1, 0};
  const Values y = c.y();
  for (std::int64_t i = 0; i < Case::d; ++i) {
    double expected = 0;
    for (std::int64_t j = 0; j < Case::f; ++j) {
      double g = 0, u = 0;
      for (std::int64_t l = 0; l < Case::d; ++l) {
        g += c.gate[(2 * Case::f + j) * Case::d + l] * c.x[Case::d + l];
        u += c.up[(2 * Case::f + j) * Case::d + l] * c.x[Case::d + l];
      }
      expected += c.down[(2 * Case::d + i) * Case::f + j] * g / (1 + std::exp(-g)) * u;
    }
    EXPECT_NEAR(y[Case::d + i], expected, 1e-12);  // the second token chose expert 2
  }
}

TEST(ReferenceExperts, Gradients) {
  Case c;
  Values grad = random_values(c.x.size(), 11), dx(c.x.size()), dweights(c.weights.size());
  Values dgate(c.gate.size()), dup(c.up.size()), ddown(c.down.size());
  Values workspace(4 * Case::f + Case::d);
  ref::experts_backward(rows_of(grad, Case::d), rows_of(c.x, Case::d), rows_of(c.chosen, Case::k),
                        rows_of(c.weights, Case::k),
                        {Case::f, c.gate.data(), c.up.data(), c.down.data()}, rows_of(dx, Case::d),
                        rows_of(dweights, Case::k),
                        {Case::experts, dgate.data(), dup.data(), ddown.data()}, workspace.data());
  const auto loss = [&] { return dot(grad, c.y()); };
  expect_gradient("x", c.x, dx, loss);
  expect_gradient("weights", c.weights, dweights, loss);
  expect_gradient("gate", c.gate, dgate, loss);
  expect_gradient("up", c.up, dup, loss);
  expect_gradient("down", c.down, ddown, loss);
  for (std::int64_t i = 0; i < Case::f * Case::d; ++i) EXPECT_EQ(dup[Case::f * Case::d + i], 0);
}

}  // namespace
}  // namespace kha::test
