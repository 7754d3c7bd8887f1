#include "core/surgery/fold_matrices.h"

#include <Eigen/LU>
#include <cassert>

namespace kha {

using View = Eigen::Map<Matrix>;

void fold_into_rows(std::span<double> weight, const HeadRows& heads, const Matrix& map,
                    int64_t inputs) {
  assert(map.rows() == heads.width);
  View w(weight.data(), static_cast<int64_t>(weight.size()) / inputs, inputs);
  for (int64_t head = 0; head < heads.heads; ++head) {
    auto rows = w.middleRows(heads.begin + head * heads.stride, heads.width);
    rows = (map * rows).eval();
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
