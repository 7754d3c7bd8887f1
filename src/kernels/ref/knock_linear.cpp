// The linear map: y = x M^T.
#include "kernels/ref/products.h"
#include "kha/kernels/reference.h"

namespace kha::reference {

void knock_linear(Input x, const double* weight, Output y) {
  for (std::int64_t row = 0; row < x.count; ++row) {
    multiply_transposed(x[row], weight, x.width, x.width, y[row]);
  }
}

void knock_linear_backward(Input grad, Input x, const double* weight, Output dx, double* dweight) {
  const std::int64_t dim = x.width;
  set_zero(dweight, dim * dim);
  for (std::int64_t row = 0; row < x.count; ++row) {
    set_zero(dx[row], dim);
    add_product(grad[row], weight, dim, dim, dx[row]);
    add_outer(grad[row], x[row], dim, dim, dweight);
  }
}

}  // namespace kha::reference
