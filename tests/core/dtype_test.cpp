#include "kha/core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/store_testing.h"

namespace kha {
namespace {

using testing::expect_parts;
using testing::message_of;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::uint16_t narrowed(DType dtype, double value) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from_doubles(dtype, std::span(&value, 1)).data(), 2);
  return bits;
}

std::vector<std::byte> bytes_of(std::uint16_t bits) {
  std::vector<std::byte> bytes(2);
  std::memcpy(bytes.data(), &bits, 2);
  return bytes;
}

TEST(DType, NamesAndSizesBothWays) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(dtype)), dtype);
  }
  EXPECT_EQ(safetensors_name(DType::boolean), "BOOL");
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::f8_e4m3), 1u);
  EXPECT_EQ(dtype_from_safetensors("f32"), std::nullopt);
}

TEST(DType, EveryHalfAndBrainValueSurvivesTheWayThroughDoubleAndFloat) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (int i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double wide = to_doubles(dtype, bytes_of(bits))[0];
      const float single = to_floats(dtype, bytes_of(bits))[0];
      if (std::isnan(wide)) {
        ASSERT_TRUE(std::isnan(single)) << i;
        ASSERT_TRUE(std::isnan(to_doubles(dtype, bytes_of(narrowed(dtype, wide)))[0])) << i;
        continue;
      }
      ASSERT_EQ(wide, single) << i;
      ASSERT_EQ(narrowed(dtype, wide), bits) << i;
    }
  }
}

// Between each pair of neighbours: just below the middle, the middle (to even), just above.
TEST(DType, RoundsToNearestEvenAtEveryBoundary) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const int top = dtype == DType::f16 ? 0x7bff : 0x7f7f;  // the largest finite value
    for (int i = 0; i < top; ++i) {
      const double low = to_doubles(dtype, bytes_of(static_cast<std::uint16_t>(i)))[0];
      const double high = to_doubles(dtype, bytes_of(static_cast<std::uint16_t>(i + 1)))[0];
      const double middle = (low + high) / 2;
      const int even = i % 2 == 0 ? i : i + 1;
      ASSERT_EQ(narrowed(dtype, middle), even) << i;
      ASSERT_EQ(narrowed(dtype, std::nextafter(middle, 0.0)), i) << i;
      ASSERT_EQ(narrowed(dtype, std::nextafter(middle, infinity)), i + 1) << i;
      ASSERT_EQ(narrowed(dtype, -middle), even | 0x8000) << i;
    }
  }
}

TEST(DType, OverflowBecomesInfinityOnlyFromHalfAStepAbove) {
  EXPECT_EQ(narrowed(DType::f16, 65519.999), 0x7bff);
  EXPECT_EQ(narrowed(DType::f16, 65520.0), 0x7c00);
  EXPECT_EQ(narrowed(DType::f16, 100000.0), 0x7c00);
  EXPECT_EQ(narrowed(DType::bf16, -1e39), 0xff80);
  EXPECT_EQ(narrowed(DType::bf16, infinity), 0x7f80);
  EXPECT_EQ(narrowed(DType::f16, 1e-300), 0);
  EXPECT_EQ(narrowed(DType::f16, -5e-324), 0x8000);
}

// Through float this value would be rounded twice, and end at 1 + 2^-7.
TEST(DType, RoundsADoubleOnce) {
  const double just_below = 1 + 0x1p-8 - 0x1p-40;
  EXPECT_EQ(narrowed(DType::bf16, just_below), 0x3f80);
  const double just_above = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(narrowed(DType::bf16, just_above), 0x3f81);
}

TEST(DType, NaNKeepsItsSign) {
  const double negative = std::copysign(std::numeric_limits<double>::quiet_NaN(), -1.0);
  EXPECT_EQ(narrowed(DType::bf16, negative), 0xffc0);
  EXPECT_EQ(narrowed(DType::f16, -negative), 0x7e00);
}

TEST(DType, WideTypesAndUnalignedBytes) {
  const std::vector<double> values{1.5, -0.0, infinity, 1e-310};
  EXPECT_EQ(to_doubles(DType::f64, from_doubles(DType::f64, values)), values);
  const std::vector<float> singles{1.5F, 3e38F};
  std::vector<std::byte> shifted(1);
  for (const std::byte b : from_floats(DType::f32, singles)) shifted.push_back(b);
  EXPECT_EQ(to_floats(DType::f32, std::span(shifted).subspan(1)), singles);
}

TEST(DType, RefusesWhatItCannotConvert) {
  const std::vector<std::byte> three(3);
  expect_parts(message_of([&] { to_doubles(DType::i64, three); }),
               {"I64", "F64, F32, F16 or BF16"});
  expect_parts(message_of([&] { to_floats(DType::f16, three); }), {"multiple of 2", "3 bytes"});
  const std::vector<double> one{1};
  expect_parts(message_of([&] { from_doubles(DType::u8, one); }), {"cannot convert", "U8"});
}

}  // namespace
}  // namespace kha
