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

// y = weight * x / rms(x), rms(x) = sqrt(mean(x^2) + eps).  x, y, grad, dx: [rows, width];
// weight, dweight: [width].
void rms_norm(Rows<const double> x, const double* weight, double eps, Rows<double> y);
void rms_norm_backward(Rows<const double> grad, Rows<const double> x, const double* weight,
                       double eps, Rows<double> dx, double* dweight);

// The cosines and sines of the positions that the rows stand at: row r is head r % heads of
// position r / heads, and positions go round and round the table.
struct Rotation {
  const double* cos = nullptr;  // [positions, D]
  const double* sin = nullptr;  // [positions, D]
  std::int64_t positions = 1;
  std::int64_t heads = 1;
};
// n = rms_norm(x), then y_i = n_i cos_i - n_i+h sin_i and y_i+h = n_i+h cos_i+h + n_i sin_i+h for
// i < h = D / 2.  x, y, grad, dx: [rows, D]; weight, dweight: [D].
void norm_rope(Rows<const double> x, const double* weight, double eps, const Rotation& rotation,
               Rows<double> y);
// `workspace` holds D values.
void norm_rope_backward(Rows<const double> grad, Rows<const double> x, const double* weight,
                        double eps, const Rotation& rotation, Rows<double> dx, double* dweight,
                        double* workspace);

// y = silu(gate) * up, silu(g) = g / (1 + e^-g).  All: [rows, width].
void swiglu(Rows<const double> gate, Rows<const double> up, Rows<double> y);
void swiglu_backward(Rows<const double> grad, Rows<const double> gate, Rows<const double> up,
                     Rows<double> dgate, Rows<double> dup);

}  // namespace kha::reference
