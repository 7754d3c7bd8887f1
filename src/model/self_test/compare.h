// Random inputs and largest differences, as the self-test's checks need them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kha {

// float64 values of a normal distribution, the same at every call with the same arguments.
at::Tensor random_values(at::IntArrayRef shape, std::uint64_t seed);

// The largest |a - b|; infinity where a value is not finite or the shapes differ.
double largest_difference(const at::Tensor& a, const at::Tensor& b);
double largest_magnitude(const at::Tensor& a);

}  // namespace kha
