// No vectors: one float32. Included by vector.h, which says what the functions are for.
#pragma once

#include <cstdint>

namespace kha::cpu::KHA_SET {

constexpr std::int64_t lanes = 1;
using Vector = float;

KHA_INLINE Vector zero() { return 0.0f; }
KHA_INLINE Vector all(float value) { return value; }
KHA_INLINE Vector load(const float* from) { return *from; }
KHA_INLINE void store(float* to, Vector value) { *to = value; }
// The first `count` lanes, 0 <= count <= lanes; the others are zero, and not read or written.
KHA_INLINE Vector load_first(const float* from, std::int64_t count) {
  return count > 0 ? *from : 0.0f;
}
KHA_INLINE void store_first(float* to, Vector value, std::int64_t count) {
  if (count > 0) *to = value;
}
KHA_INLINE Vector add(Vector a, Vector b) { return a + b; }
KHA_INLINE Vector sub(Vector a, Vector b) { return a - b; }
KHA_INLINE Vector mul(Vector a, Vector b) { return a * b; }
KHA_INLINE Vector div(Vector a, Vector b) { return a / b; }
// a * b + c; rounded twice here, once in the other sets.
KHA_INLINE Vector fma(Vector a, Vector b, Vector c) { return a * b + c; }
// The smaller and the larger; where one is not a number the second operand.
KHA_INLINE Vector min(Vector a, Vector b) { return a < b ? a : b; }
KHA_INLINE Vector max(Vector a, Vector b) { return a > b ? a : b; }
// `value` where x > limit or x is not a number, else zero.
KHA_INLINE Vector keep_above(Vector value, Vector x, Vector limit) {
  return x <= limit ? 0.0f : value;
}
// For magnitudes below 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
KHA_INLINE Vector round_to_integer(Vector a) {
  const volatile float shifted = a + 12582912.0f;
  return shifted - 12582912.0f;
}
// 2^n for integers n in [-126, 127].
KHA_INLINE Vector power_of_two(Vector n) {
  const auto bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(n == n ? n : 0.0f) + 127)
                    << 23;
  return __builtin_bit_cast(float, bits);
}
// a * 2^n by its exponent alone: for integers n where a and the result are normal numbers.
KHA_INLINE Vector add_to_exponent(Vector a, Vector n) {
  const auto shift = static_cast<std::uint32_t>(static_cast<std::int32_t>(n == n ? n : 0.0f)) << 23;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, a) + shift);
}
KHA_INLINE float sum_of_lanes(Vector a) { return a; }

}  // namespace kha::cpu::KHA_SET
