// The reference of the int8 KV cache: worked examples, the bound of its error, zeros.
#include "kha/kernels/reference_cache.h"

#include <cmath>

#include "kernels/finite_differences.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;

struct Kept {
  std::vector<std::int8_t> q;
  Values scales, back;
};

Kept through_int8(const Values& x, std::int64_t width) {
  const auto rows = static_cast<std::int64_t>(x.size()) / width;
  Kept k{std::vector<std::int8_t>(x.size(), 99), Values(rows, -1), Values(x.size(), -1)};
  ref::quantise_rows(adjacent_rows(x.data(), rows, width), adjacent_rows(k.q.data(), rows, width),
                     k.scales.data());
  ref::dequantise_rows(adjacent_rows<const std::int8_t>(k.q.data(), rows, width), k.scales.data(),
                       adjacent_rows(k.back.data(), rows, width));
  return k;
}

TEST(ReferenceCache, ByHand) {
  // 127 / 254 = 0.5 steps a unit; 3 and 5 are ties, which go to the even number.
  const Kept k = through_int8({-254, 3, 5, 100, 1, 0, -0.25, 0.125}, 4);
  EXPECT_EQ(k.scales, (Values{2, 1.0 / 127}));
  EXPECT_EQ(k.q, (std::vector<std::int8_t>{-127, 2, 2, 50, 127, 0, -32, 16}));
  EXPECT_EQ(k.back, (Values{-254, 4, 4, 100, 127 * (1.0 / 127), 0, -32 / 127.0, 16 / 127.0}));
}

TEST(ReferenceCache, IsOffByHalfAStepAtMost) {
  const Values x = random_values(40 * 9, 3);
  const Kept k = through_int8(x, 9);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(std::abs(x[i] - k.back[i]), k.scales[i / 9] / 2 * (1 + 1e-12)) << i;
  }
}

TEST(ReferenceCache, ZerosStayZeros) {
  const Kept k = through_int8({0, 0, -0.0, 1, 2, 3}, 3);
  EXPECT_EQ(k.scales[0], 0);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(k.back[i], 0) << i;
}

}  // namespace
}  // namespace kha::test
