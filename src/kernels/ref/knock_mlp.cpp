// The mlp map: y = 2 (x U^T * sigmoid(x G^T)) W^T.
//
// With u = x U^T, s = sigmoid(x G^T), h = u * 2s: y = h W^T. The factor 2 goes to the sigmoid, so
// that the identity start (U = W = I, G = 0) is exact down to subnormal values.
#include <initializer_list>

#include "kernels/ref/products.h"
#include "kha/kernels/reference.h"

namespace kha::reference {

void knock_mlp(Input x, MlpWeights weights, Output y, double* workspace) {
  const std::int64_t dim = x.width;
  double* hidden = workspace;
  for (std::int64_t row = 0; row < x.count; ++row) {
    multiply_transposed(x[row], weights.up, dim, dim, hidden);
    for (std::int64_t i = 0; i < dim; ++i) {
      double logit = 0.0;
      multiply_transposed(x[row], weights.gate + i * dim, 1, dim, &logit);
      hidden[i] *= 2.0 * sigmoid(logit);
    }
    multiply_transposed(hidden, weights.down, dim, dim, y[row]);
  }
}

void knock_mlp_backward(Input grad, Input x, MlpWeights weights, Output dx, MlpGradients dweights,
                        double* workspace) {
  const std::int64_t dim = x.width;
  double* hidden = workspace;            // u, then h
  double* dup = workspace + dim;         // dh, then du
  double* dlogit = workspace + 2 * dim;  // the logits, then their gradient
  for (double* dweight : {dweights.up, dweights.gate, dweights.down}) set_zero(dweight, dim * dim);
  for (std::int64_t row = 0; row < x.count; ++row) {
    multiply_transposed(x[row], weights.up, dim, dim, hidden);
    multiply_transposed(x[row], weights.gate, dim, dim, dlogit);
    set_zero(dup, dim);
    add_product(grad[row], weights.down, dim, dim, dup);
    for (std::int64_t i = 0; i < dim; ++i) {
      const double s = sigmoid(dlogit[i]);
      dlogit[i] = dup[i] * hidden[i] * (2.0 * s * (1.0 - s));
      dup[i] *= 2.0 * s;
      hidden[i] *= 2.0 * s;
    }
    set_zero(dx[row], dim);
    add_product(dup, weights.up, dim, dim, dx[row]);
    add_product(dlogit, weights.gate, dim, dim, dx[row]);
    add_outer(dup, x[row], dim, dim, dweights.up);
    add_outer(dlogit, x[row], dim, dim, dweights.gate);
    add_outer(grad[row], hidden, dim, dim, dweights.down);
  }
}

}  // namespace kha::reference
