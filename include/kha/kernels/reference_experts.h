// The executable specification of a mixture of experts: router, its auxiliary losses, experts.
//
// Plain loops in double, forward and backward, against which every faster implementation is
// tested. Manners are those of kha/kernels/reference.h: nothing is allocated, thrown or checked,
// outputs overlap nothing and are overwritten.
#pragma once

#include <cstdint>

#include "kha/kernels/rows.h"

namespace kha::reference {

struct RouterRule {
  bool softmax = false;          // scores s: softmax(z), else sigmoid(z) of each expert alone
  const double* bias = nullptr;  // [E], added for the choice alone; null: none
  bool normalise = true;         // the weights of a token sum to `scaling`
  double scaling = 1.0;
};

// chosen: the k largest of s + bias, the largest first, of equal ones the lower expert.
// weights: s of the chosen, divided by their sum where they are normalised, times the scaling.
// logits: [N, E]; chosen, weights: [N, k]. `workspace` holds E values.
void route(Rows<const double> logits, const RouterRule& rule, Rows<std::int64_t> chosen,
           Rows<double> weights, double* workspace);
// The choice is a constant. grad: [N, k], of the weights; dlogits: [N, E]. `workspace` holds 2 E.
void route_backward(Rows<const double> grad, Rows<const double> logits, const RouterRule& rule,
                    Rows<const std::int64_t> chosen, Rows<double> dlogits, double* workspace);

// E sum_i share_i mean_n(q_ni), q_n: the scores of a token divided by their sum; `share`: [E], of
// all choices those that fell on each expert, constants. 1 where the load is even.
double balance_loss(Rows<const double> logits, bool softmax, const double* share,
                    double* workspace);
// dlogits += weight times its gradient. `workspace` holds 2 E values.
void add_balance_gradient(double weight, Rows<const double> logits, bool softmax,
                          const double* share, Rows<double> dlogits, double* workspace);

// mean_n (log sum_i e^z_ni)^2.
double router_z_loss(Rows<const double> logits);
// dlogits += weight times its gradient.
void add_router_z_gradient(double weight, Rows<const double> logits, Rows<double> dlogits);

// All matrices of a layer's experts, one behind the other.
struct Experts {
  std::int64_t width = 0;        // f
  const double* gate = nullptr;  // [E, f, d]
  const double* up = nullptr;    // [E, f, d]
  const double* down = nullptr;  // [E, d, f]
};
struct ExpertGradients {
  std::int64_t experts = 0;  // E
  double* gate = nullptr;
  double* up = nullptr;
  double* down = nullptr;
};
// y_n = sum_j weights_nj down_e(silu(gate_e x_n) * up_e x_n), e = chosen_nj.
// x, y: [N, d]; chosen, weights: [N, k]. `workspace` holds 2 f + d values.
void experts(Rows<const double> x, Rows<const std::int64_t> chosen, Rows<const double> weights,
             const Experts& matrices, Rows<double> y, double* workspace);
// grad, dx: [N, d]; dweights: [N, k]. `workspace` holds 4 f + d values.
void experts_backward(Rows<const double> grad, Rows<const double> x,
                      Rows<const std::int64_t> chosen, Rows<const double> weights,
                      const Experts& matrices, Rows<double> dx, Rows<double> dweights,
                      const ExpertGradients& gradients, double* workspace);

}  // namespace kha::reference
