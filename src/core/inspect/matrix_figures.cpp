#include <Eigen/Core>
#include <Eigen/SVD>
#include <cassert>
#include <cmath>
#include <limits>

#include "kha/core/map_report.h"

namespace kha {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Matrix>;

View square(std::span<const double> matrix) {
  const auto size = static_cast<Eigen::Index>(std::lround(std::sqrt(matrix.size())));
  assert(size > 0 && static_cast<size_t>(size * size) == matrix.size());
  return View(matrix.data(), size, size);
}

MatrixFigures not_finite() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {nan, nan, nan, nan, nan, nan};
}

}  // namespace

double condition_number(std::span<const double> matrix) {
  const View m = square(matrix);
  if (!m.allFinite()) return std::numeric_limits<double>::quiet_NaN();
  const Eigen::VectorXd singular = Eigen::BDCSVD<Matrix>(m).singularValues();
  const double largest = singular[0], smallest = singular[singular.size() - 1];
  const double rounding = m.rows() * std::numeric_limits<double>::epsilon();
  if (smallest <= rounding * largest) return std::numeric_limits<double>::infinity();
  return largest / smallest;
}

MatrixFigures matrix_figures(std::span<const double> matrix, bool starts_at_identity) {
  const View m = square(matrix);
  if (!m.allFinite()) return not_finite();
  const Eigen::VectorXd diagonal = m.diagonal();
  const double all = m.squaredNorm();
  const Matrix off = m - Matrix(diagonal.asDiagonal());
  const double start = starts_at_identity ? 1.0 : 0.0;
  const double moved = off.squaredNorm() + (diagonal.array() - start).matrix().squaredNorm();
  return {.identity_distance = std::sqrt(moved / m.rows()),
          .condition = condition_number(matrix),
          .diagonal_mean = diagonal.mean(),
          .diagonal_min = diagonal.minCoeff(),
          .diagonal_max = diagonal.maxCoeff(),
          .off_diagonal_share = all > 0 ? off.squaredNorm() / all : 0};
}

}  // namespace kha
