// The reference maps: identity start, a worked 2 x 2 example, finite differences, strides, NaN.
#include "kernels/finite_differences.h"
#include "kha/kernels/reference.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// Outputs start as NaN, so that a value which is not written is seen.
Values unwritten(std::size_t count) { return Values(count, nan_value); }

Rows<const double> rows_of(const Values& values, std::int64_t dim) {
  return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / dim, dim);
}
Rows<double> rows_of(Values& values, std::int64_t dim) {
  return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / dim, dim);
}

Values linear(const Values& x, const Values& weight, std::int64_t dim) {
  Values y = unwritten(x.size());
  ref::knock_linear(rows_of(x, dim), weight.data(), rows_of(y, dim));
  return y;
}

Values gated(const Values& x, const Values& gate, std::int64_t dim) {
  Values y = unwritten(x.size());
  ref::knock_gate(rows_of(x, dim), gate.data(), rows_of(y, dim));
  return y;
}

struct Mlp {
  Values up, gate, down;
  ref::MlpWeights view() const { return {up.data(), gate.data(), down.data()}; }
};

Values mlp(const Values& x, const Mlp& weights, std::int64_t dim) {
  Values y = unwritten(x.size());
  Values workspace = unwritten(dim);
  ref::knock_mlp(rows_of(x, dim), weights.view(), rows_of(y, dim), workspace.data());
  return y;
}

TEST(ReferenceMaps, IdentityStartIsExact) {
  const std::int64_t dim = 5;
  Values x = random_values(7 * dim, 1);
  x[3] = std::numeric_limits<double>::denorm_min();
  x[8] = -3 * std::numeric_limits<double>::denorm_min();
  const Values zero(dim * dim, 0.0);
  EXPECT_EQ(linear(x, identity(dim), dim), x);
  EXPECT_EQ(gated(x, zero, dim), x);
  EXPECT_EQ(mlp(x, {identity(dim), zero, identity(dim)}, dim), x);
}

// x = [1, 2]; M = [[1, 2], [3, 4]]: x M^T = [1 + 4, 3 + 8]. A transposed M would give [7, 10].
TEST(ReferenceMaps, LinearByHand) { EXPECT_EQ(linear({1, 2}, {1, 2, 3, 4}, 2), (Values{5, 11})); }

// x = [ln 3, 0], G = [[1, 0], [-1, 0]]: logits [ln 3, -ln 3], sigmoid [3/4, 1/4].
TEST(ReferenceMaps, GateByHand) {
  const double ln3 = std::log(3.0);
  const Values y = gated({ln3, 0}, {1, 0, -1, 0}, 2);
  EXPECT_NEAR(y[0], 1.5 * ln3, 1e-15);
  EXPECT_EQ(y[1], 0.0);
}

// As above with U = [[0, 1], [2, 0]]: u = [0, 2 ln 3], h = u * 2s = [0, ln 3];
// W = [[1, 2], [3, 4]]: y = [2 ln 3, 4 ln 3].
TEST(ReferenceMaps, MlpByHand) {
  const double ln3 = std::log(3.0);
  const Values y = mlp({ln3, 0}, {{0, 1, 2, 0}, {1, 0, -1, 0}, {1, 2, 3, 4}}, 2);
  EXPECT_NEAR(y[0], 2 * ln3, 1e-15);
  EXPECT_NEAR(y[1], 4 * ln3, 1e-15);
}

TEST(ReferenceMaps, LinearGradients) {
  const std::int64_t dim = 4;
  Values x = random_values(3 * dim, 2), weight = random_values(dim * dim, 3);
  const Values grad = random_values(x.size(), 4);
  Values dx = unwritten(x.size()), dweight = unwritten(weight.size());
  ref::knock_linear_backward(rows_of(grad, dim), rows_of(x, dim), weight.data(), rows_of(dx, dim),
                             dweight.data());
  const auto loss = [&] { return dot(grad, linear(x, weight, dim)); };
  expect_gradient("x", x, dx, loss);
  expect_gradient("weight", weight, dweight, loss);
}

TEST(ReferenceMaps, GateGradients) {
  const std::int64_t dim = 4;
  Values x = random_values(3 * dim, 5), gate = random_values(dim * dim, 6);
  const Values grad = random_values(x.size(), 7);
  Values dx = unwritten(x.size()), dgate = unwritten(gate.size());
  ref::knock_gate_backward(rows_of(grad, dim), rows_of(x, dim), gate.data(), rows_of(dx, dim),
                           dgate.data());
  const auto loss = [&] { return dot(grad, gated(x, gate, dim)); };
  expect_gradient("x", x, dx, loss);
  expect_gradient("gate", gate, dgate, loss);
}

TEST(ReferenceMaps, MlpGradients) {
  const std::int64_t dim = 4, square = dim * dim;
  Values x = random_values(3 * dim, 8);
  Mlp weights{random_values(square, 9), random_values(square, 10), random_values(square, 11)};
  const Values grad = random_values(x.size(), 12);
  Values dx = unwritten(x.size()), workspace = unwritten(3 * dim);
  Mlp dweights{unwritten(square), unwritten(square), unwritten(square)};
  ref::knock_mlp_backward(rows_of(grad, dim), rows_of(x, dim), weights.view(), rows_of(dx, dim),
                          {dweights.up.data(), dweights.gate.data(), dweights.down.data()},
                          workspace.data());
  const auto loss = [&] { return dot(grad, mlp(x, weights, dim)); };
  expect_gradient("x", x, dx, loss);
  expect_gradient("up", weights.up, dweights.up, loss);
  expect_gradient("gate", weights.gate, dweights.gate, loss);
  expect_gradient("down", weights.down, dweights.down, loss);
}

// Rows of a wider matrix: the values between them are neither read nor written.
TEST(ReferenceMaps, StridedRowsTouchNothingElse) {
  const std::int64_t dim = 2, stride = 5, count = 3;
  const Values weight = {1, 2, 3, 4};
  const Values x = random_values(count * dim, 13);
  Values wide_x = unwritten(count * stride), wide_y(count * stride, 7.0);
  for (std::int64_t i = 0; i < count * dim; ++i) wide_x[i / dim * stride + i % dim] = x[i];
  ref::knock_linear({wide_x.data(), count, dim, stride}, weight.data(),
                    {wide_y.data(), count, dim, stride});
  const Values y = linear(x, weight, dim);
  for (std::int64_t i = 0; i < count * stride; ++i) {
    const std::int64_t row = i / stride, column = i % stride;
    EXPECT_EQ(wide_y[i], column < dim ? y[row * dim + column] : 7.0) << i;
  }
}

TEST(ReferenceMaps, NoRowsGiveZeroParameterGradients) {
  Values dweight = unwritten(4);
  const Values weight = {1, 2, 3, 4};
  ref::knock_linear_backward({nullptr, 0, 2, 2}, {nullptr, 0, 2, 2}, weight.data(),
                             {nullptr, 0, 2, 2}, dweight.data());
  EXPECT_EQ(dweight, Values(4, 0.0));
}

TEST(ReferenceMaps, NanAndInfinityPropagate) {
  const Values y = linear({nan_value, 1, infinity, 1}, {1, 1, 1, -1}, 2);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_TRUE(std::isinf(y[2]) && std::isinf(y[3]));
  const Values gate_y = gated({infinity, 1, -infinity, 1}, {1, 0, 1, 0}, 2);
  EXPECT_EQ(gate_y[0], infinity);
  EXPECT_EQ(gate_y[1], 2.0);
  EXPECT_TRUE(std::isnan(gate_y[2]));  // -infinity * 0
  EXPECT_EQ(gate_y[3], 0.0);
}

}  // namespace
}  // namespace kha::test
