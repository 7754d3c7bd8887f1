// The executable specification of knocking-heads attention's maps (arXiv 2510.23052, eq. 5-9).
//
// Plain loops in double, forward and backward, against which every faster implementation is
// tested. One map is shared by all heads, so a row here is one head at one position, D values.
//
// Convention: the paper writes y = x T with row vectors. Matrices are stored as torch.nn.Linear
// stores them, [out, in] with adjacent rows, and y = x M^T: M is the paper's T transposed.
//
// Manners: nothing is allocated, thrown or checked. Sizes come from the Rows; outputs must not
// overlap inputs or one another. Every output is overwritten, the gradients of parameters too.
// NaN and infinity propagate as IEEE arithmetic says. Zero rows give zero parameter gradients.
#pragma once

#include <cstdint>

#include "kha/kernels/rows.h"

namespace kha::reference {

using Input = Rows<const double>;
using Output = Rows<double>;

// linear: y = x M^T.   x, y, grad, dx: [rows, D]; weight, dweight: [D, D].
void knock_linear(Input x, const double* weight, Output y);
void knock_linear_backward(Input grad, Input x, const double* weight, Output dx, double* dweight);

// mlp: y = 2 (x U^T * sigmoid(x G^T)) W^T, `*` elementwise, with U up, G gate, W down.
struct MlpWeights {
  const double* up;    // [D, D]
  const double* gate;  // [D, D]
  const double* down;  // [D, D]
};
struct MlpGradients {
  double* up;    // [D, D]
  double* gate;  // [D, D]
  double* down;  // [D, D]
};
// `workspace` holds D values.
void knock_mlp(Input x, MlpWeights weights, Output y, double* workspace);
// `workspace` holds 3 * D values.
void knock_mlp_backward(Input grad, Input x, MlpWeights weights, Output dx, MlpGradients dweights,
                        double* workspace);

// gate: y = 2 x * sigmoid(x G^T).   x, y, grad, dx: [rows, D]; gate, dgate: [D, D].
void knock_gate(Input x, const double* gate, Output y);
void knock_gate_backward(Input grad, Input x, const double* gate, Output dx, double* dgate);

// A projection whose heads are mapped in weight space: with W_h: [D, d] the rows of head h,
// W'_h = M W_h, b'_h = M b_h, and y = x W'^T + b'.
struct Projection {
  const double* weight;  // [heads * D, d]
  const double* bias;    // [heads * D], or null
  const double* map;     // [D, D]
  std::int64_t heads;
  std::int64_t head_dim;  // D
};
struct ProjectionGradients {
  double* weight;  // [heads * D, d]
  double* bias;    // [heads * D], or null where the projection has no bias
  double* map;     // [D, D]
};
// W' and b' themselves: mapped_weight [heads * D, width], mapped_bias [heads * D] or null.
void map_projection(const Projection& projection, std::int64_t width, double* mapped_weight,
                    double* mapped_bias);
// x: [rows, d], y: [rows, heads * D]. `workspace` holds heads * D * (d + 1) values.
void knocked_linear(Input x, const Projection& projection, Output y, double* workspace);
// grad: [rows, heads * D], dx: [rows, d]. `workspace` holds heads * D * (2 * d + 1) values.
void knocked_linear_backward(Input grad, Input x, const Projection& projection, Output dx,
                             const ProjectionGradients& gradients, double* workspace);

}  // namespace kha::reference
