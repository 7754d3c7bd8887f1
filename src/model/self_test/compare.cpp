#include "model/self_test/compare.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

namespace kha {

at::Tensor random_values(at::IntArrayRef shape, std::uint64_t seed) {
  return at::empty(shape, at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(seed));
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const at::Tensor difference = a.detach().to(at::kDouble) - b.detach().to(at::kDouble);
  if (!difference.isfinite().all().item<bool>()) return std::numeric_limits<double>::infinity();
  return largest_magnitude(difference);
}

double largest_magnitude(const at::Tensor& a) {
  return a.numel() == 0 ? 0 : a.detach().abs().max().item<double>();
}

}  // namespace kha
