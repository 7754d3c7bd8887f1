// Cross-entropy of the output head: l = log(sum_v e^z_v) - z_t, z = h W^T.
//
// The largest logit is taken out before the exponentials, so that none overflows.
#include <cmath>

#include "kernels/ref/products.h"
#include "kha/kernels/reference_layers.h"

namespace kha::reference {
namespace {

// The logits of one row, and log(sum_v e^z_v) of them.
double logits_of(const double* hidden, Rows<const double> weight, double* logits) {
  for (std::int64_t v = 0; v < weight.count; ++v) {
    multiply_transposed(hidden, weight[v], 1, weight.width, logits + v);
  }
  double largest = logits[0];
  for (std::int64_t v = 1; v < weight.count; ++v) largest = std::fmax(largest, logits[v]);
  double sum = 0.0;
  for (std::int64_t v = 0; v < weight.count; ++v) sum += std::exp(logits[v] - largest);
  return largest + std::log(sum);
}

}  // namespace

void head_loss(Rows<const double> hidden, Rows<const double> weight, const std::int64_t* targets,
               double* losses, double* workspace) {
  for (std::int64_t row = 0; row < hidden.count; ++row) {
    losses[row] = 0.0;
    if (targets[row] == not_counted) continue;
    const double log_sum = logits_of(hidden[row], weight, workspace);
    losses[row] = log_sum - workspace[targets[row]];
  }
}

void head_loss_backward(const double* grad, Rows<const double> hidden, Rows<const double> weight,
                        const std::int64_t* targets, Rows<double> dhidden, Rows<double> dweight,
                        double* workspace) {
  for (std::int64_t v = 0; v < weight.count; ++v) set_zero(dweight[v], weight.width);
  for (std::int64_t row = 0; row < hidden.count; ++row) {
    set_zero(dhidden[row], hidden.width);
    if (targets[row] == not_counted) continue;
    const double log_sum = logits_of(hidden[row], weight, workspace);
    for (std::int64_t v = 0; v < weight.count; ++v) {
      const double wanted = v == targets[row] ? 1.0 : 0.0;
      const double dlogit = grad[row] * (std::exp(workspace[v] - log_sum) - wanted);
      add_product(&dlogit, weight[v], 1, weight.width, dhidden[row]);
      add_outer(&dlogit, hidden[row], 1, hidden.width, dweight[v]);
    }
  }
}

}  // namespace kha::reference
