// What stands between an expert's products, in every instruction set against the double reference:
// the weighted gate, its gradients, and the sum of rows by token.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/every_set.h"
#include "kha/kernels/reference_layers.h"

namespace kha::test {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

class WeightedGate : public EverySet {};

Floats random(std::int64_t count, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

Doubles wide(const Floats& values) { return {values.begin(), values.end()}; }

struct Case {
  std::int64_t rows, width;
  Floats gate, up, weights, grad;

  Case(std::int64_t rows, std::int64_t width) : rows(rows), width(width) {
    std::mt19937 engine(5);
    gate = random(rows * width, engine);
    up = random(rows * width, engine);
    weights = random(rows, engine);
    grad = random(rows * width, engine);
  }
  WeightedGates gates() const { return {gate.data(), up.data(), weights.data(), rows, width}; }
  std::string name() const { return std::to_string(rows) + " x " + std::to_string(width); }
};

struct Wanted {
  Doubles y, dgate, dup, dweights;
};

// y = w s, s = silu(gate) up: dw = sum(grad s), and s has the gradient w grad.
Wanted wanted(const Case& c) {
  const auto rows = [&](Doubles& values) { return adjacent_rows(values.data(), c.rows, c.width); };
  Doubles gate = wide(c.gate), up = wide(c.up), grad = wide(c.grad), s(gate.size());
  Wanted w{Doubles(s.size()), Doubles(s.size()), Doubles(s.size()), Doubles(c.rows)};
  reference::swiglu(rows(gate), rows(up), rows(s));
  for (std::size_t i = 0; i < s.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / c.width;
    w.y[i] = c.weights[row] * s[i];
    w.dweights[row] += grad[i] * s[i];
    grad[i] *= c.weights[row];
  }
  reference::swiglu_backward(rows(grad), rows(gate), rows(up), rows(w.dgate), rows(w.dup));
  return w;
}

// A value past the end of what a kernel may write, to be found again.
constexpr float guard = 77.0f;

void expect_near(const Floats& found, const Doubles& want, double tolerance,
                 const std::string& where) {
  ASSERT_EQ(found.size(), want.size() + 1) << where;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::abs(found[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])))
        << where << "[" << i << "]: " << found[i] << " instead of " << want[i];
  }
  EXPECT_EQ(found.back(), guard) << where << " wrote past its end";
}

// Widths of less than a vector, whole vectors and what is left over, in every set.
TEST_P(WeightedGate, ForwardAndEveryGradientAreTheReferences) {
  for (const std::int64_t width : {1, 3, 7, 8, 9, 16, 17, 31, 32, 50}) {
    for (const std::int64_t rows : {0, 1, 5}) {
      const Case c(rows, width);
      const Wanted want = wanted(c);
      Floats y(want.y.size() + 1, guard), again = y, dgate = y, dup = y;
      Floats dweights(rows + 1, guard);
      kernels().weighted_swiglu(c.gates(), y.data());
      kernels().weighted_swiglu_backward(c.grad.data(), c.gates(),
                                         {again.data(), dgate.data(), dup.data(), dweights.data()});
      const std::string where = GetParam().name + " " + c.name();
      expect_near(y, want.y, 1e-6, where + ", y");
      EXPECT_EQ(again, y) << where;
      expect_near(dgate, want.dgate, 2e-6, where + ", dgate");
      expect_near(dup, want.dup, 2e-6, where + ", dup");
      expect_near(dweights, want.dweights, 1e-5, where + ", dweights");
    }
  }
}

TEST_P(WeightedGate, WhatIsNoNumberIsSeen) {
  Case c(2, 11);
  c.gate[3] = std::nanf("");
  Floats y(23, guard), dgate = y, dup = y, dweights(3, guard);
  kernels().weighted_swiglu_backward(c.grad.data(), c.gates(),
                                     {y.data(), dgate.data(), dup.data(), dweights.data()});
  for (const Floats* part : {&y, &dgate, &dup}) {
    for (std::size_t i = 0; i < 22; ++i) EXPECT_EQ(std::isnan((*part)[i]), i == 3) << i;
  }
  EXPECT_TRUE(std::isnan(dweights[0]));
  EXPECT_FALSE(std::isnan(dweights[1]));
}

TEST_P(WeightedGate, RowsAreAddedAtTheirPlaces) {
  std::mt19937 engine(6);
  for (const std::int64_t width : {1, 8, 13, 32, 45}) {
    const Floats rows = random(3 * width, engine), before = random(5 * width, engine);
    const std::vector<std::int64_t> places{4, 0, 2};
    Floats sum = before;
    kernels().add_rows(rows.data(), places.data(), 3, width, sum.data());
    Floats want = before;
    for (std::int64_t i = 0; i < 3 * width; ++i)
      want[places[i / width] * width + i % width] += rows[i];
    EXPECT_EQ(sum, want) << GetParam().name << ", width " << width;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, WeightedGate, testing::ValuesIn(all_kernels()),
                         [](const auto& set) { return set.param.name; });

}  // namespace
}  // namespace kha::test
