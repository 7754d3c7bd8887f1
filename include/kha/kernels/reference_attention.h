// The executable specification of causal scaled dot-product attention.
//
// Plain loops in double, forward and backward, against which every faster implementation is
// tested. Manners are those of kha/kernels/reference.h: nothing is allocated, thrown or checked,
// outputs overlap nothing, NaN and infinity propagate as IEEE arithmetic says.
#pragma once

#include <cstdint>

#include "kha/kernels/rows.h"

namespace kha::reference {

// One query head with the keys and values it reads. Query t stands at position t + (S - T) of S,
// T <= S, and sees the keys up to its own position.
struct AttentionHead {
  Rows<const double> queries;  // [T, D]
  Rows<const double> keys;     // [S, D]
  Rows<const double> values;   // [S, D_v]
  double scale = 1.0;
};

// y_t = sum_s p_ts v_s, p_t = softmax over the visible s of scale q_t . k_s (the attention of
// every system whose heads' scores are products).  y: [T, D_v]. `workspace` holds S values.
void causal_attention(const AttentionHead& head, Rows<double> y, double* workspace);

// With dp_ts = dy_t . v_s and ds_ts = scale p_ts (dp_ts - sum_j p_tj dp_tj):
// dq_t = sum_s ds_ts k_s, dk_s += sum_t ds_ts q_t, dv_s += sum_t p_ts dy_t. Added to and not
// overwritten, since several query heads may read one key head.
// grad: [T, D_v], of y. `workspace` holds 2 S values.
void causal_attention_backward(Rows<const double> grad, const AttentionHead& head, Rows<double> dq,
                               Rows<double> dk, Rows<double> dv, double* workspace);

}  // namespace kha::reference
