// The executable specification of an int8 KV cache.
//
// Manners are those of kha/kernels/reference.h: plain loops in double, nothing is allocated, thrown
// or checked, outputs overlap nothing and are overwritten.
#pragma once

#include <cstdint>

#include "kha/kernels/rows.h"

namespace kha::reference {

// Symmetric, one scale a row: s = max_i |x_i| / 127, q_i = x_i / s to the nearest integer, ties to
// the even one. A row of zeros has s = 0 and q = 0. x, q: [rows, width]; scales: [rows]. Finite x
// only.
void quantise_rows(Rows<const double> x, Rows<std::int8_t> q, double* scales);

// x_i = s q_i: exact for a row of zeros, elsewhere off by at most s / 2 and a rounding.
void dequantise_rows(Rows<const std::int8_t> q, const double* scales, Rows<double> x);

}  // namespace kha::reference
