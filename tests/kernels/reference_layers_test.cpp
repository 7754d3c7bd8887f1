// The reference norm, rotation and SwiGLU: worked examples, finite differences, NaN.
#include "kha/kernels/reference_layers.h"

#include "kernels/finite_differences.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double eps = 1e-3;  // large enough to be seen

Values unwritten(std::size_t count) { return Values(count, nan_value); }

auto rows_of(const Values& values, std::int64_t width) {
  return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / width, width);
}
auto rows_of(Values& values, std::int64_t width) {
  return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / width, width);
}

Values norm(const Values& x, const Values& weight) {
  const auto width = static_cast<std::int64_t>(weight.size());
  Values y = unwritten(x.size());
  ref::rms_norm(rows_of(x, width), weight.data(), eps, rows_of(y, width));
  return y;
}

// mean(x^2) = (1 + 49) / 2 = 25.
TEST(ReferenceNorm, ByHand) {
  const double rms = std::sqrt(25 + eps);
  const Values y = norm({1, 7}, {2, 3});
  EXPECT_NEAR(y[0], 2 / rms, 1e-15);
  EXPECT_NEAR(y[1], 21 / rms, 1e-15);
}

TEST(ReferenceNorm, Gradients) {
  Values x = random_values(3 * 5, 1), weight = random_values(5, 2);
  const Values grad = random_values(x.size(), 3);
  Values dx = unwritten(x.size()), dweight = unwritten(5);
  ref::rms_norm_backward(rows_of(grad, 5), rows_of(x, 5), weight.data(), eps, rows_of(dx, 5),
                         dweight.data());
  const auto loss = [&] { return dot(grad, norm(x, weight)); };
  expect_gradient("x", x, dx, loss);
  expect_gradient("weight", weight, dweight, loss);
}

TEST(ReferenceNorm, NanStaysInItsRow) {
  const Values y = norm({1, nan_value, 3, 4}, {1, 1});
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isfinite(y[2]));
}

// Rows of two heads at three positions of a table of three, then round again.
struct Rotated {
  Values x = random_values(8 * 4, 4), weight = random_values(4, 5);
  Values cos = random_values(3 * 4, 6), sin = random_values(3 * 4, 7);

  ref::Rotation table() const { return {cos.data(), sin.data(), 3, 2}; }
  Values y() const {
    Values result = unwritten(x.size());
    ref::norm_rope(rows_of(x, 4), weight.data(), eps, table(), rows_of(result, 4));
    return result;
  }
};

TEST(ReferenceNormRope, RotatesPairsOfChannelsByTheAngleOfThePosition) {
  Rotated r;
  const Values n = norm(r.x, r.weight), y = r.y();
  for (std::int64_t row = 0; row < 8; ++row) {
    const std::int64_t position = row / 2 % 3;
    for (std::int64_t i = 0; i < 4; ++i) {
      const double pair = i < 2 ? -n[row * 4 + i + 2] : n[row * 4 + i - 2];
      const double c = r.cos[position * 4 + i], s = r.sin[position * 4 + i];
      EXPECT_NEAR(y[row * 4 + i], n[row * 4 + i] * c + pair * s, 1e-14);
    }
  }
}

TEST(ReferenceNormRope, Gradients) {
  Rotated r;
  const Values grad = random_values(r.x.size(), 8);
  Values dx = unwritten(r.x.size()), dweight = unwritten(4), workspace = unwritten(4);
  ref::norm_rope_backward(rows_of(grad, 4), rows_of(r.x, 4), r.weight.data(), eps, r.table(),
                          rows_of(dx, 4), dweight.data(), workspace.data());
  const auto loss = [&] { return dot(grad, r.y()); };
  expect_gradient("x", r.x, dx, loss);
  expect_gradient("weight", r.weight, dweight, loss);
}

Values swiglu(const Values& gate, const Values& up) {
  Values y = unwritten(gate.size());
  ref::swiglu(rows_of(gate, 3), rows_of(up, 3), rows_of(y, 3));
  return y;
}

// sigmoid(ln 3) = 3/4.
TEST(ReferenceSwiglu, ByHand) {
  const Values y = swiglu({std::log(3.0), 0, -std::log(3.0)}, {2, 5, 4});
  EXPECT_NEAR(y[0], 1.5 * std::log(3.0), 1e-15);
  EXPECT_EQ(y[1], 0);
  EXPECT_NEAR(y[2], -std::log(3.0), 1e-15);
}

TEST(ReferenceSwiglu, Gradients) {
  Values gate = random_values(6, 9), up = random_values(6, 10);
  const Values grad = random_values(6, 11);
  Values dgate = unwritten(6), dup = unwritten(6);
  ref::swiglu_backward(rows_of(grad, 3), rows_of(gate, 3), rows_of(up, 3), rows_of(dgate, 3),
                       rows_of(dup, 3));
  const auto loss = [&] { return dot(grad, swiglu(gate, up)); };
  expect_gradient("gate", gate, dgate, loss);
  expect_gradient("up", up, dup, loss);
}

TEST(ReferenceLayers, NoRowsGiveAZeroWeightGradient) {
  Values none, dweight = unwritten(4), workspace = unwritten(4);
  const Values weight = {1, 2, 3, 4};
  ref::rms_norm_backward(rows_of(none, 4), rows_of(none, 4), weight.data(), eps, rows_of(none, 4),
                         dweight.data());
  EXPECT_EQ(dweight, Values(4, 0.0));
  dweight = unwritten(4);
  ref::norm_rope_backward(rows_of(none, 4), rows_of(none, 4), weight.data(), eps, {},
                          rows_of(none, 4), dweight.data(), workspace.data());
  EXPECT_EQ(dweight, Values(4, 0.0));
}

}  // namespace
}  // namespace kha::test
