// RMSNorm, alone and with the rotary embedding behind it.
//
// With r = 1 / rms(x): n_i = w_i x_i r, and as dr/dx_j = -r^3 x_j / width,
// dx_j = r w_j dn_j - x_j r^3 mean_i(w_i dn_i x_i).
#include <cmath>

#include "kernels/ref/products.h"
#include "kha/kernels/reference_layers.h"

namespace kha::reference {
namespace {

double inverse_rms(const double* x, std::int64_t width, double eps) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  return 1.0 / std::sqrt(sum / static_cast<double>(width) + eps);
}

void normalise(const double* x, const double* weight, std::int64_t width, double eps, double* n) {
  const double r = inverse_rms(x, width, eps);
  for (std::int64_t i = 0; i < width; ++i) n[i] = weight[i] * (x[i] * r);
}

// Overwrites dx, adds to dweight.
void normalise_backward(const double* grad, const double* x, const double* weight,
                        std::int64_t width, double eps, double* dx, double* dweight) {
  const double r = inverse_rms(x, width, eps);
  double dot = 0.0;
  for (std::int64_t i = 0; i < width; ++i) dot += weight[i] * grad[i] * x[i];
  const double along_x = r * r * r * dot / static_cast<double>(width);
  for (std::int64_t i = 0; i < width; ++i) {
    dweight[i] += grad[i] * (x[i] * r);
    dx[i] = r * weight[i] * grad[i] - x[i] * along_x;
  }
}

}  // namespace

void rms_norm(Rows<const double> x, const double* weight, double eps, Rows<double> y) {
  for (std::int64_t row = 0; row < x.count; ++row) normalise(x[row], weight, x.width, eps, y[row]);
}

void rms_norm_backward(Rows<const double> grad, Rows<const double> x, const double* weight,
                       double eps, Rows<double> dx, double* dweight) {
  set_zero(dweight, x.width);
  for (std::int64_t row = 0; row < x.count; ++row) {
    normalise_backward(grad[row], x[row], weight, x.width, eps, dx[row], dweight);
  }
}

void norm_rope(Rows<const double> x, const double* weight, double eps, const Rotation& rotation,
               Rows<double> y) {
  const std::int64_t half = x.width / 2;
  for (std::int64_t row = 0; row < x.count; ++row) {
    const std::int64_t at = row / rotation.heads % rotation.positions * x.width;
    const double *cos = rotation.cos + at, *sin = rotation.sin + at;
    double* n = y[row];
    normalise(x[row], weight, x.width, eps, n);
    for (std::int64_t i = 0; i < half; ++i) {
      const double low = n[i], high = n[i + half];
      n[i] = low * cos[i] - high * sin[i];
      n[i + half] = high * cos[i + half] + low * sin[i + half];
    }
  }
}

void norm_rope_backward(Rows<const double> grad, Rows<const double> x, const double* weight,
                        double eps, const Rotation& rotation, Rows<double> dx, double* dweight,
                        double* workspace) {
  const std::int64_t half = x.width / 2;
  set_zero(dweight, x.width);
  for (std::int64_t row = 0; row < x.count; ++row) {
    const std::int64_t at = row / rotation.heads % rotation.positions * x.width;
    const double *cos = rotation.cos + at, *sin = rotation.sin + at, *g = grad[row];
    for (std::int64_t i = 0; i < half; ++i) {
      workspace[i] = g[i] * cos[i] + g[i + half] * sin[i + half];
      workspace[i + half] = g[i + half] * cos[i + half] - g[i] * sin[i];
    }
    normalise_backward(workspace, x[row], weight, x.width, eps, dx[row], dweight);
  }
}

}  // namespace kha::reference
