// SwiGLU: y = g sigmoid(g) u, and with s = sigmoid(g) the slope of silu is s (1 + g (1 - s)).
#include "kernels/ref/products.h"
#include "kha/kernels/reference_layers.h"

namespace kha::reference {

void swiglu(Rows<const double> gate, Rows<const double> up, Rows<double> y) {
  for (std::int64_t row = 0; row < gate.count; ++row) {
    for (std::int64_t i = 0; i < gate.width; ++i) {
      const double g = gate[row][i];
      y[row][i] = g * sigmoid(g) * up[row][i];
    }
  }
}

void swiglu_backward(Rows<const double> grad, Rows<const double> gate, Rows<const double> up,
                     Rows<double> dgate, Rows<double> dup) {
  for (std::int64_t row = 0; row < gate.count; ++row) {
    for (std::int64_t i = 0; i < gate.width; ++i) {
      const double g = gate[row][i], s = sigmoid(g);
      dgate[row][i] = grad[row][i] * up[row][i] * (s * (1.0 + g * (1.0 - s)));
      dup[row][i] = grad[row][i] * (g * s);
    }
  }
}

}  // namespace kha::reference
