#include "core/surgery/fold_matrices.h"

#include <Eigen/LU>
#include <cassert>

namespace kha {

using View = Eigen::Map<Matrix>;

void fold_into_rows(std::span<double> weight, const Matrix& map, int64_t inputs) {
  const int64_t width = map.rows(), head = width * inputs;
  assert(weight.size() % head == 0);
  for (double* start = weight.data(); start != weight.data() + weight.size(); start += head) {
    View w(start, width, inputs);
    w = (map * w).eval();
  }
}

void fold_into_columns(std::span<double> weight, const Matrix& map, int64_t outputs) {
  const int64_t width = map.rows();
  assert(weight.size() % (outputs * width) == 0);
  View w(weight.data(), outputs, weight.size() / outputs);
  for (int64_t column = 0; column < w.cols(); column += width) {
    w.middleCols(column, width) = (w.middleCols(column, width) * map).eval();
  }
}

Matrix gate_after_up(const Matrix& gate, const Matrix& up) {
  // R U = G, transposed into the form that the solver knows: U^T R^T = G^T.
  const Matrix solved = up.transpose().partialPivLu().solve(gate.transpose());
  return solved.transpose();
}

}  // namespace kha
