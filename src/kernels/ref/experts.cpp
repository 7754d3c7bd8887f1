// The chosen experts of each token, one after the other.
#include "kernels/ref/products.h"
#include "kha/kernels/reference_experts.h"

namespace kha::reference {
namespace {

// silu(g) and its slope.
double silu(double g) { return g * sigmoid(g); }
double silu_slope(double g) {
  const double s = sigmoid(g);
  return s * (1.0 + g * (1.0 - s));
}

}  // namespace

void experts(Rows<const double> x, Rows<const std::int64_t> chosen, Rows<const double> weights,
             const Experts& m, Rows<double> y, double* workspace) {
  const std::int64_t d = x.width, f = m.width;
  double *gate = workspace, *up = gate + f, *own = up + f;
  for (std::int64_t n = 0; n < x.count; ++n) {
    set_zero(y[n], d);
    for (std::int64_t j = 0; j < chosen.width; ++j) {
      const std::int64_t first = chosen[n][j] * f * d;
      multiply_transposed(x[n], m.gate + first, f, d, gate);
      multiply_transposed(x[n], m.up + first, f, d, up);
      for (std::int64_t i = 0; i < f; ++i) gate[i] = silu(gate[i]) * up[i];
      multiply_transposed(gate, m.down + first, d, f, own);
      for (std::int64_t i = 0; i < d; ++i) y[n][i] += weights[n][j] * own[i];
    }
  }
}

void experts_backward(Rows<const double> grad, Rows<const double> x,
                      Rows<const std::int64_t> chosen, Rows<const double> weights, const Experts& m,
                      Rows<double> dx, Rows<double> dweights, const ExpertGradients& gradients,
                      double* workspace) {
  const std::int64_t d = x.width, f = m.width;
  double *gate = workspace, *up = gate + f, *inner = up + f, *dinner = inner + f;
  double* own = dinner + f;
  const std::int64_t all = gradients.experts * f * d;
  set_zero(gradients.gate, all);
  set_zero(gradients.up, all);
  set_zero(gradients.down, all);
  for (std::int64_t n = 0; n < x.count; ++n) {
    set_zero(dx[n], d);
    for (std::int64_t j = 0; j < chosen.width; ++j) {
      const std::int64_t first = chosen[n][j] * f * d;
      multiply_transposed(x[n], m.gate + first, f, d, gate);
      multiply_transposed(x[n], m.up + first, f, d, up);
      for (std::int64_t i = 0; i < f; ++i) inner[i] = silu(gate[i]) * up[i];
      multiply_transposed(inner, m.down + first, d, f, own);
      dweights[n][j] = 0.0;
      for (std::int64_t i = 0; i < d; ++i) {
        dweights[n][j] += grad[n][i] * own[i];
        own[i] = weights[n][j] * grad[n][i];  // the gradient of the expert's result
      }
      add_outer(own, inner, d, f, gradients.down + first);
      set_zero(dinner, f);
      add_product(own, m.down + first, d, f, dinner);
      for (std::int64_t i = 0; i < f; ++i) {
        const double dup = dinner[i] * silu(gate[i]);
        gate[i] = dinner[i] * up[i] * silu_slope(gate[i]);
        up[i] = dup;
      }
      add_outer(gate, x[n], f, d, gradients.gate + first);
      add_outer(up, x[n], f, d, gradients.up + first);
      add_product(gate, m.gate + first, f, d, dx[n]);
      add_product(up, m.up + first, f, d, dx[n]);
    }
  }
}

}  // namespace kha::reference
