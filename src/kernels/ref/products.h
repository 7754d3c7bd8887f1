// The matrix products that the reference operators are made of, with x and y as single rows.
#pragma once

#include <cmath>
#include <cstdint>

namespace kha::reference {

// y_i = sum_j x_j M_ij, that is y = x M^T; M: [out, in].
inline void multiply_transposed(const double* x, const double* matrix, std::int64_t out,
                                std::int64_t in, double* y) {
  for (std::int64_t i = 0; i < out; ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < in; ++j) sum += x[j] * matrix[i * in + j];
    y[i] = sum;
  }
}

// y_j += sum_i x_i M_ij, that is y += x M; M: [out, in].
inline void add_product(const double* x, const double* matrix, std::int64_t out, std::int64_t in,
                        double* y) {
  for (std::int64_t j = 0; j < in; ++j) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < out; ++i) sum += x[i] * matrix[i * in + j];
    y[j] += sum;
  }
}

// M_ij += a_i b_j; M: [out, in].
inline void add_outer(const double* a, const double* b, std::int64_t out, std::int64_t in,
                      double* matrix) {
  for (std::int64_t i = 0; i < out; ++i) {
    for (std::int64_t j = 0; j < in; ++j) matrix[i * in + j] += a[i] * b[j];
  }
}

inline void set_zero(double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = 0.0;
}

inline double sigmoid(double value) { return 1.0 / (1.0 + std::exp(-value)); }

}  // namespace kha::reference
