// One float32 vector of the instruction set that a file is compiled for, and what kernels do to it.
//
// Every file of this folder is compiled once for each set, with KHA_SET the set's name; all its
// code stands in namespace kha::cpu::KHA_SET. Such a file may define nothing with a name that all
// sets share (an inline function of a header, a template of the standard library): the linker
// would keep one copy, compiled for a set that the processor may lack. tests/python/test_symbols.py
// reads the object files for that.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define KHA_INLINE [[gnu::always_inline]] static inline

namespace kha::cpu::KHA_SET {

#if defined(__AVX512F__)

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

#elif defined(__AVX2__)

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

#else

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

#endif

}  // namespace kha::cpu::KHA_SET
