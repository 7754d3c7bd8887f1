// Sixteen float32 lanes without AVX-512: an array and loops, for tests of the kernels' geometry.
#pragma once

#include <cstdint>

namespace kha::cpu::KHA_SET {

constexpr std::int64_t lanes = 16;
struct Vector {
  float lane[lanes];
};

#define KHA_EACH_LANE(expression)                                         \
  Vector result;                                                          \
  for (std::int64_t i = 0; i < lanes; ++i) result.lane[i] = (expression); \
  return result

KHA_INLINE Vector zero() { KHA_EACH_LANE(0.0f); }
KHA_INLINE Vector all(float value) { KHA_EACH_LANE(value); }
KHA_INLINE Vector load(const float* from) { KHA_EACH_LANE(from[i]); }
KHA_INLINE Vector load_first(const float* from, std::int64_t count) {
  KHA_EACH_LANE(i < count ? from[i] : 0.0f);
}
KHA_INLINE void store(float* to, Vector value) {
  for (std::int64_t i = 0; i < lanes; ++i) to[i] = value.lane[i];
}
KHA_INLINE void store_first(float* to, Vector value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value.lane[i];
}
KHA_INLINE Vector add(Vector a, Vector b) { KHA_EACH_LANE(a.lane[i] + b.lane[i]); }
KHA_INLINE Vector sub(Vector a, Vector b) { KHA_EACH_LANE(a.lane[i] - b.lane[i]); }
KHA_INLINE Vector mul(Vector a, Vector b) { KHA_EACH_LANE(a.lane[i] * b.lane[i]); }
KHA_INLINE Vector div(Vector a, Vector b) { KHA_EACH_LANE(a.lane[i] / b.lane[i]); }
KHA_INLINE Vector fma(Vector a, Vector b, Vector c) {
  KHA_EACH_LANE(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]));
}
KHA_INLINE Vector min(Vector a, Vector b) {
  KHA_EACH_LANE(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}
KHA_INLINE Vector max(Vector a, Vector b) {
  KHA_EACH_LANE(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
KHA_INLINE Vector keep_above(Vector value, Vector x, Vector limit) {
  KHA_EACH_LANE(x.lane[i] <= limit.lane[i] ? 0.0f : value.lane[i]);
}
KHA_INLINE Vector round_to_integer(Vector a) { KHA_EACH_LANE(__builtin_rintf(a.lane[i])); }
KHA_INLINE std::uint32_t exponent_bits(float n, int bias) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(n == n ? n : 0.0f) + bias) << 23;
}
KHA_INLINE Vector power_of_two(Vector n) {
  KHA_EACH_LANE(__builtin_bit_cast(float, exponent_bits(n.lane[i], 127)));
}
KHA_INLINE Vector add_to_exponent(Vector a, Vector n) {
  KHA_EACH_LANE(__builtin_bit_cast(
      float, __builtin_bit_cast(std::uint32_t, a.lane[i]) + exponent_bits(n.lane[i], 0)));
}
KHA_INLINE float sum_of_lanes(Vector a) {
  float sum = 0;
  for (std::int64_t i = 0; i < lanes; ++i) sum += a.lane[i];
  return sum;
}

#undef KHA_EACH_LANE

}  // namespace kha::cpu::KHA_SET
