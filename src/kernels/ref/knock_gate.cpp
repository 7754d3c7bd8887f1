// The gate map: y = 2 x * sigmoid(x G^T).
//
// The factor 2 goes to the sigmoid, not to the product: with G = 0 the factor is then exactly 1,
// and even the smallest subnormal x comes out unchanged.
#include "kernels/ref/products.h"
#include "kha/kernels/reference.h"

namespace kha::reference {

void knock_gate(Input x, const double* gate, Output y) {
  for (std::int64_t row = 0; row < x.count; ++row) {
    multiply_transposed(x[row], gate, x.width, x.width, y[row]);
    for (std::int64_t i = 0; i < x.width; ++i) {
      y[row][i] = x[row][i] * (2.0 * sigmoid(y[row][i]));
    }
  }
}

void knock_gate_backward(Input grad, Input x, const double* gate, Output dx, double* dgate) {
  const std::int64_t dim = x.width;
  set_zero(dgate, dim * dim);
  for (std::int64_t row = 0; row < x.count; ++row) {
    // dx starts as its direct term, dy_i 2 s_i; the terms through the gate come on top.
    multiply_transposed(x[row], gate, dim, dim, dx[row]);
    for (std::int64_t i = 0; i < dim; ++i) dx[row][i] = grad[row][i] * (2.0 * sigmoid(dx[row][i]));
    for (std::int64_t i = 0; i < dim; ++i) {
      double logit = 0.0;
      multiply_transposed(x[row], gate + i * dim, 1, dim, &logit);
      const double s = sigmoid(logit);
      const double dlogit = grad[row][i] * x[row][i] * (2.0 * s * (1.0 - s));
      add_product(&dlogit, gate + i * dim, 1, dim, dx[row]);
      add_outer(&dlogit, x[row], 1, dim, dgate + i * dim);
    }
  }
}

}  // namespace kha::reference
