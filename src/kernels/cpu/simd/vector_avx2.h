// AVX2 and FMA: 8 float32 lanes. Included by vector.h, which says what the functions are for.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace kha::cpu::KHA_SET {

constexpr std::int64_t lanes = 8;
using Vector = __m256;

KHA_INLINE Vector zero() { return _mm256_setzero_ps(); }
KHA_INLINE Vector all(float value) { return _mm256_set1_ps(value); }
KHA_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
KHA_INLINE void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
// The first `count` lanes, 0 <= count <= lanes; the others are zero, and not read or written.
KHA_INLINE __m256i first_lanes(std::int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}
KHA_INLINE Vector load_first(const float* from, std::int64_t count) {
  return _mm256_maskload_ps(from, first_lanes(count));
}
KHA_INLINE void store_first(float* to, Vector value, std::int64_t count) {
  _mm256_maskstore_ps(to, first_lanes(count), value);
}
KHA_INLINE Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
KHA_INLINE Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
KHA_INLINE Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
KHA_INLINE Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
// a * b + c, rounded once.
KHA_INLINE Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
// The smaller and the larger; where one is not a number the second operand.
KHA_INLINE Vector min(Vector a, Vector b) { return _mm256_min_ps(a, b); }
KHA_INLINE Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
// `value` where x > limit or x is not a number, else zero.
KHA_INLINE Vector keep_above(Vector value, Vector x, Vector limit) {
  return _mm256_and_ps(value, _mm256_cmp_ps(x, limit, _CMP_NLE_UQ));
}
KHA_INLINE Vector round_to_integer(Vector a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n for integers n in [-126, 127].
KHA_INLINE Vector power_of_two(Vector n) {
  const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}
// a * 2^n by its exponent alone: for integers n where a and the result are normal numbers.
KHA_INLINE Vector add_to_exponent(Vector a, Vector n) {
  const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), shift));
}
KHA_INLINE float sum_of_lanes(Vector a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace kha::cpu::KHA_SET
