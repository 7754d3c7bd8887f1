#include "core/surgery/fold_matrices.h"

#include <Eigen/LU>
#include <cassert>

#include "core/surgery/head_products.h"

namespace kha {

void fold_into_rows(std::span<double> weight, const HeadRows& heads, const Matrix& map,
                    int64_t inputs) {
  assert(map.rows() == heads.width);
  assert(static_cast<int64_t>(weight.size()) % inputs == 0);
  multiply_row_blocks(weight.data(), inputs, {heads.heads, heads.begin, heads.stride}, map.data(),
                      heads.width);
}

void fold_into_columns(std::span<double> weight, const Matrix& map, int64_t outputs) {
  const int64_t width = map.rows();
  assert(weight.size() % (outputs * width) == 0);
  const int64_t columns = static_cast<int64_t>(weight.size()) / outputs;
  multiply_column_blocks(weight.data(), outputs, columns, map.data(), width);
}

Matrix gate_after_up(const Matrix& gate, const Matrix& up) {
  // R U = G, transposed into the form that the solver knows: U^T R^T = G^T.
  const Matrix solved = up.transpose().partialPivLu().solve(gate.transpose());
  return solved.transpose();
}

}  // namespace kha
