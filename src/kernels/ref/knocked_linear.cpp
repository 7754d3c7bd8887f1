// The linear map in weight space: y = x W'^T + b' with W'_h = M W_h and b'_h = M b_h.
//
// Backward, per head: dW_h = M^T dW'_h, db_h = M^T db'_h, dM = sum_h dW'_h W_h^T + db'_h b_h^T.
#include "kernels/ref/products.h"
#include "kha/kernels/reference.h"

namespace kha::reference {
namespace {

// out = M in for one head; in, out: [D, width].
void map_head(const Projection& p, const double* in, std::int64_t width, double* out) {
  set_zero(out, p.head_dim * width);
  for (std::int64_t i = 0; i < p.head_dim; ++i) {
    add_product(p.map + i * p.head_dim, in, p.head_dim, width, out + i * width);
  }
}

// out = M^T in, and dmap += in original^T, for one head; all [D, width].
void map_head_backward(const Projection& p, const double* in, const double* original,
                       std::int64_t width, double* out, double* dmap) {
  set_zero(out, p.head_dim * width);
  for (std::int64_t i = 0; i < p.head_dim; ++i) {
    const double* row = in + i * width;
    add_outer(p.map + i * p.head_dim, row, p.head_dim, width, out);
    for (std::int64_t j = 0; j < p.head_dim; ++j) {
      double sum = 0.0;
      multiply_transposed(row, original + j * width, 1, width, &sum);
      dmap[i * p.head_dim + j] += sum;
    }
  }
}

}  // namespace

void map_projection(const Projection& projection, std::int64_t width, double* mapped_weight,
                    double* mapped_bias) {
  for (std::int64_t head = 0; head < projection.heads; ++head) {
    const std::int64_t first = head * projection.head_dim;
    map_head(projection, projection.weight + first * width, width, mapped_weight + first * width);
    if (projection.bias != nullptr) {
      map_head(projection, projection.bias + first, 1, mapped_bias + first);
    }
  }
}

void knocked_linear(Input x, const Projection& projection, Output y, double* workspace) {
  const std::int64_t out = projection.heads * projection.head_dim;
  double* mapped_weight = workspace;
  double* mapped_bias = workspace + out * x.width;
  set_zero(mapped_bias, out);
  map_projection(projection, x.width, mapped_weight, mapped_bias);
  for (std::int64_t row = 0; row < x.count; ++row) {
    multiply_transposed(x[row], mapped_weight, out, x.width, y[row]);
    if (projection.bias == nullptr) continue;
    for (std::int64_t i = 0; i < out; ++i) y[row][i] += mapped_bias[i];
  }
}

void knocked_linear_backward(Input grad, Input x, const Projection& projection, Output dx,
                             const ProjectionGradients& gradients, double* workspace) {
  const std::int64_t width = x.width;
  const std::int64_t dim = projection.head_dim;
  const std::int64_t out = projection.heads * dim;
  double* mapped_weight = workspace;
  double* dmapped_weight = workspace + out * width;
  double* bias = workspace + 2 * out * width;  // b' is not needed, then db'
  map_projection(projection, width, mapped_weight, bias);
  set_zero(dmapped_weight, out * width);
  set_zero(bias, out);
  for (std::int64_t row = 0; row < x.count; ++row) {
    set_zero(dx[row], width);
    add_product(grad[row], mapped_weight, out, width, dx[row]);
    add_outer(grad[row], x[row], out, width, dmapped_weight);
    for (std::int64_t i = 0; i < out; ++i) bias[i] += grad[row][i];
  }
  set_zero(gradients.map, dim * dim);
  for (std::int64_t first = 0; first < out; first += dim) {
    map_head_backward(projection, dmapped_weight + first * width, projection.weight + first * width,
                      width, gradients.weight + first * width, gradients.map);
    if (projection.bias == nullptr) continue;
    map_head_backward(projection, bias + first, projection.bias + first, 1, gradients.bias + first,
                      gradients.map);
  }
}

}  // namespace kha::reference
