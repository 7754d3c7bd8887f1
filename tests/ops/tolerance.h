// How far a result may be from the double reference.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>

namespace kha::test {

inline double epsilon_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return 0x1p-10;
    case at::kBFloat16:
      return 0x1p-7;
    case at::kFloat:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

inline double largest(const at::Tensor& t) {
  return t.numel() == 0 ? 0.0 : t.abs().max().item<double>();
}

// Twice the error that torch's composition makes in the same dtype, plus one rounding of the
// largest value; in double 1e-12 of it.
inline double allowed_error(at::ScalarType dtype, const at::Tensor& torch, const at::Tensor& want) {
  const double scale = largest(want);
  if (dtype == at::kDouble) return 1e-12 * std::max(1.0, scale);
  return 2 * largest(torch - want) + epsilon_of(dtype) * scale;
}

}  // namespace kha::test
