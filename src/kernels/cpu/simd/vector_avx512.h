// AVX-512: 16 float32 lanes. Included by vector.h, which says what the functions are for.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace kha::cpu::KHA_SET {

constexpr std::int64_t lanes = 16;
using Vector = __m512;

KHA_INLINE Vector zero() { return _mm512_setzero_ps(); }
KHA_INLINE Vector all(float value) { return _mm512_set1_ps(value); }
KHA_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
KHA_INLINE void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
// The first `count` lanes, 0 <= count <= lanes; the others are zero, and not read or written.
KHA_INLINE __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}
KHA_INLINE Vector load_first(const float* from, std::int64_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), from);
}
KHA_INLINE void store_first(float* to, Vector value, std::int64_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), value);
}
KHA_INLINE Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
KHA_INLINE Vector sub(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
KHA_INLINE Vector mul(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
KHA_INLINE Vector div(Vector a, Vector b) { return _mm512_div_ps(a, b); }
// a * b + c, rounded once.
KHA_INLINE Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
// The smaller and the larger; where one is not a number the second operand.
KHA_INLINE Vector min(Vector a, Vector b) { return _mm512_min_ps(a, b); }
KHA_INLINE Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }
// `value` where x > limit or x is not a number, else zero.
KHA_INLINE Vector keep_above(Vector value, Vector x, Vector limit) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLE_UQ), value);
}
KHA_INLINE Vector round_to_integer(Vector a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n for integers n in [-126, 127].
KHA_INLINE Vector power_of_two(Vector n) {
  const __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
}
// a * 2^n by its exponent alone: for integers n where a and the result are normal numbers.
KHA_INLINE Vector add_to_exponent(Vector a, Vector n) {
  const __m512i shift = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), shift));
}
KHA_INLINE float sum_of_lanes(Vector a) { return _mm512_reduce_add_ps(a); }

}  // namespace kha::cpu::KHA_SET
