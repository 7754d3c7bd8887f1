// Rows in int8 against the reference formula in double.
#include "modules/int8_rows.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kha/kernels/reference_cache.h"

namespace kha::test {
namespace {

struct Reference {
  std::vector<std::int8_t> q;
  std::vector<double> scales;
};

Reference reference_of(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kDouble).contiguous();
  const int64_t width = x.size(-1), rows = x.numel() / width;
  Reference r{std::vector<std::int8_t>(x.numel()), std::vector<double>(rows)};
  reference::quantise_rows(adjacent_rows(wide.const_data_ptr<double>(), rows, width),
                           adjacent_rows(r.q.data(), rows, width), r.scales.data());
  return r;
}

// Rows of very different sizes, laid out as a cache is read: not contiguous.
at::Tensor some_rows(at::ScalarType type) {
  const at::Tensor flat = at::sin(at::arange(3 * 5 * 2 * 7, at::kDouble).pow(2) * 0.37 + 1);
  const at::Tensor sizes = at::pow(10.0, at::arange(-5, 5, at::kDouble)).view({5, 2, 1});
  return (flat.view({3, 5, 2, 7}) * sizes).to(type).transpose(1, 2);
}

TEST(Int8Rows, AreTheReferenceFormula) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = some_rows(type);
    const Reference right = reference_of(x);
    const Int8Rows found = to_int8(x);
    const at::Tensor q = found.values.contiguous(), scales = found.scales.contiguous();
    const at::Tensor steps =
        (x.to(at::kDouble) / scales.to(at::kDouble)).contiguous();  // before rounding
    ASSERT_EQ(scales.numel(), static_cast<int64_t>(right.scales.size()));
    for (size_t row = 0; row < right.scales.size(); ++row) {
      EXPECT_NEAR(scales.const_data_ptr<float>()[row], right.scales[row], 3e-7 * right.scales[row]);
    }
    for (int64_t i = 0; i < q.numel(); ++i) {
      const double step = steps.const_data_ptr<double>()[i];
      const bool tie = std::abs(std::abs(step - std::floor(step)) - 0.5) < 1e-4;
      const int off = std::abs(int{q.const_data_ptr<std::int8_t>()[i]} - int{right.q[i]});
      EXPECT_LE(off, tie ? 1 : 0) << i;
    }
  }
}

TEST(Int8Rows, ComeBackWithinHalfAStep) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = some_rows(type);
    const Int8Rows rows = to_int8(x);
    const at::Tensor back = from_int8(rows, type);
    EXPECT_EQ(back.scalar_type(), type);
    EXPECT_TRUE(((back - x).abs() <= rows.scales * 0.500001).all().item<bool>());
    EXPECT_FALSE(back.equal(x));
  }
}

// A narrow type rounds the product once, not the scale before it: 2^-9 of a bfloat16 scale would be
// a quarter of a step at the row's end.
TEST(Int8Rows, ANarrowTypeRoundsOnce) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::sin(at::arange(600, at::kFloat)).view({1, 3, 2, 100}).to(type);
    const Int8Rows rows = to_int8(x);
    const at::Tensor exact = rows.values.to(at::kDouble) * rows.scales.to(at::kDouble);
    EXPECT_TRUE(from_int8(rows, type).equal(exact.to(type)));
  }
}

TEST(Int8Rows, ZerosStayZeros) {
  at::Tensor x = at::ones({3, 4});
  x[1].zero_();
  const at::Tensor back = from_int8(to_int8(x), at::kFloat);
  EXPECT_TRUE(back[1].equal(at::zeros({4})));
  EXPECT_TRUE(
      from_int8(to_int8(at::zeros({2, 0, 3, 5})), at::kFloat).equal(at::zeros({2, 0, 3, 5})));
}

TEST(Int8Rows, TheSmallestNumbersAreNoTrap) {
  const float least = std::numeric_limits<float>::denorm_min();
  const at::Tensor x = at::tensor({least, -200 * least, 150 * least, 0.0f}).view({1, 4});
  const at::Tensor back = from_int8(to_int8(x), at::kFloat);
  EXPECT_TRUE(((back - x).abs() <= 100 * least).all().item<bool>());
}

TEST(Int8Rows, WhatIsNotFiniteStaysSo) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor x = at::ones({2, 4});
    x[0][2] = bad;
    const at::Tensor back = from_int8(to_int8(x), at::kFloat);
    EXPECT_FALSE(at::isfinite(back[0]).any().item<bool>());
    EXPECT_TRUE(at::isfinite(back[1]).all().item<bool>());
  }
}

}  // namespace
}  // namespace kha::test
