// The executable specification of the decoder's other parts: norm, rotation, SwiGLU, head loss.
//
// Plain loops in double, forward and backward, against which every faster implementation is
// tested. Manners are those of kha/kernels/reference.h: nothing is allocated, thrown or checked,
// outputs overlap nothing and are overwritten, NaN and infinity propagate as IEEE arithmetic says.
#pragma once

#include <cstdint>

#include "kha/kernels/rows.h"

namespace kha::reference {

// The target of a row that is not counted.
constexpr std::int64_t not_counted = -100;

// l_n = log(sum_v e^z_nv) - z_n,t(n) with z = h W^T: the negative log-likelihood, in nats, of each
// row's target; 0 where the target is not_counted, whatever the row holds.
// hidden: [N, d]; weight: [V, d]; targets, losses: [N]. `workspace` holds V values.
void head_loss(Rows<const double> hidden, Rows<const double> weight, const std::int64_t* targets,
               double* losses, double* workspace);
// grad: [N], the gradient of each loss; dhidden: [N, d]; dweight: [V, d]. `workspace` holds V.
void head_loss_backward(const double* grad, Rows<const double> hidden, Rows<const double> weight,
                        const std::int64_t* targets, Rows<double> dhidden, Rows<double> dweight,
                        double* workspace);

}  // namespace kha::reference
