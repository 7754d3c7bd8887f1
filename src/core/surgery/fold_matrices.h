// The arithmetic of folding, on plain float64 arrays in the storage convention.
//
// A stored weight is [out, in] and acts on column vectors: y = W x. So a map stored as M follows
// the projection as M (W x), and stands before the output projection as W_o (M a). In the paper's
// row convention the same matrix is T = M^T.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "kha/core/attention_system.h"

namespace kha {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The map after a projection: W_h <- M W_h for each head's rows. `weight`: [rows, inputs]
// row-major, a bias has one input; rows that belong to no head stay.
void fold_into_rows(std::span<double> weight, const HeadRows& heads, const Matrix& map,
                    int64_t inputs);

// The map before a projection: W_h <- W_h M for each head. `weight`: [outputs, heads * D]
// row-major.
void fold_into_columns(std::span<double> weight, const Matrix& map, int64_t outputs);

// The gate as it acts on u = U x instead of x: R with R U = G. U must not be singular.
Matrix gate_after_up(const Matrix& gate, const Matrix& up);

}  // namespace kha
