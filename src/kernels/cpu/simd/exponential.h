// exp and sigmoid of a vector of float32, within 2 units in the last place.
#pragma once

#include "kernels/cpu/simd/vector.h"

namespace kha::cpu::KHA_SET {

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2, and a polynomial for e^r.
//
// exp(0) is exactly 1. Overflow gives infinity, underflow subnormals and then zero, not a number
// stays so. The scale 2^n is applied in two halves, since n may lie outside float32's exponents.
KHA_INLINE Vector exponential(Vector x) {
  // e^120 is infinity already and e^-120 zero; either half of n must be an exponent of float32.
  // The limit as first operand: min and max give the second where x is not a number.
  x = min(all(120.0f), max(all(-120.0f), x));
  const Vector n = round_to_integer(mul(x, all(1.44269504088896341f)));
  // ln 2 in two parts, the first with trailing zeros, so that n * part is exact.
  Vector r = fma(n, all(-0.693359375f), x);
  r = fma(n, all(2.12194440054690583e-4f), r);
  // Taylor to the seventh power: the next term is below 2^-27 of the result.
  Vector p = all(1.0f / 5040);
  p = fma(p, r, all(1.0f / 720));
  p = fma(p, r, all(1.0f / 120));
  p = fma(p, r, all(1.0f / 24));
  p = fma(p, r, all(1.0f / 6));
  p = fma(p, r, all(0.5f));
  p = fma(p, mul(r, r), r);
  p = add(p, all(1.0f));
  const Vector half = round_to_integer(mul(n, all(0.5f)));
  return mul(mul(p, power_of_two(half)), power_of_two(sub(n, half)));
}

// e^x where x <= 0 up to rounding, as the softmax has it: exactly 1 at 0, exactly 0 from -87 down
// (the truth is below 2e-38 there), not a number stays so. A third of exponential's operations are
// for what cannot be here.
KHA_INLINE Vector falling_exponential(Vector x) {
  const Vector bounded = max(all(-87.0f), x);
  const Vector n = round_to_integer(mul(bounded, all(1.44269504088896341f)));
  Vector r = fma(n, all(-0.693359375f), bounded);
  r = fma(n, all(2.12194440054690583e-4f), r);
  // The polynomial of twice_sigmoid for e^r: its error is below 2^-26 of the result.
  Vector p = fma(all(1.3927685e-3f), r, all(8.364380e-3f));
  p = fma(p, r, all(4.1666545e-2f));
  p = fma(p, r, all(1.666657e-1f));
  p = fma(p, r, all(0.5f));
  p = fma(p, r, all(1.0f));
  p = fma(p, r, all(1.0f));
  return keep_above(add_to_exponent(p, n), x, all(-87.0f));
}

// 1 / (1 + e^-x): exactly one half at zero.
KHA_INLINE Vector sigmoid(Vector x) {
  return div(all(1.0f), add(all(1.0f), exponential(sub(zero(), x))));
}

// 2 / (1 + e^-x), what the gated maps multiply by: exactly 1 at zero, exactly 2 above 87 and
// exactly 0 from -87 down (the truth is below 4e-38 there).
KHA_INLINE Vector twice_sigmoid(Vector x) {
  const Vector bounded = min(all(87.0f), max(all(-87.0f), x));
  const Vector n = round_to_integer(mul(bounded, all(-1.44269504088896341f)));
  // e^-x = 2^n e^-r with r = x + n ln 2.
  Vector r = fma(n, all(0.693359375f), bounded);
  r = fma(n, all(-2.12194440054690583e-4f), r);
  // A polynomial of the sixth degree for e^-r, |r| <= ln 2 / 2: e^-r = 1 - r + r^2 s(r), s by
  // interpolation at Chebyshev's points; its error is below 2^-26 of the result.
  Vector p = fma(all(1.3927685e-3f), r, all(-8.364380e-3f));
  p = fma(p, r, all(4.1666545e-2f));
  p = fma(p, r, all(-1.666657e-1f));
  p = fma(p, r, all(0.5f));
  p = fma(p, r, all(-1.0f));
  p = fma(p, r, all(1.0f));
  const Vector result = div(all(2.0f), add(all(1.0f), add_to_exponent(p, n)));
  return keep_above(result, x, all(-87.0f));
}

}  // namespace kha::cpu::KHA_SET
