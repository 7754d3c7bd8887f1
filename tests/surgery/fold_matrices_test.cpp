#include "core/surgery/fold_matrices.h"

#include <gtest/gtest.h>

#include <vector>

namespace kha {
namespace {

Matrix two(double a, double b, double c, double d) {
  Matrix m(2, 2);
  m << a, b, c, d;
  return m;
}

// By hand: two heads of width 2, three inputs; the map is not symmetric.
TEST(FoldMatrices, MapAfterAProjectionMultipliesEachHeadFromTheLeft) {
  std::vector<double> weight{1,  2, 3, 4, 5, 6,    // head 0: two rows
                             -1, 0, 1, 2, 2, -3};  // head 1
  fold_into_rows(weight, {.heads = 2, .width = 2, .stride = 2}, two(1, 10, 0, 2), 3);
  EXPECT_EQ(weight, (std::vector<double>{41, 52, 63, 8, 10, 12, 19, 20, -29, 4, 4, -6}));
}

TEST(FoldMatrices, BiasIsAWeightWithOneInput) {
  std::vector<double> bias{1, 2, 3, 4};
  fold_into_rows(bias, {.heads = 2, .width = 2, .stride = 2}, two(1, 10, 0, 2), 1);
  EXPECT_EQ(bias, (std::vector<double>{21, 4, 43, 8}));
}

TEST(FoldMatrices, RowsThatAreNoHeadsStay) {
  std::vector<double> bias{1, 2, 3, 9, 4, 5, 6};  // heads are rows 1, 2 and 5, 6
  fold_into_rows(bias, {.heads = 2, .width = 2, .stride = 4, .begin = 1}, two(1, 10, 0, 2), 1);
  EXPECT_EQ(bias, (std::vector<double>{1, 32, 6, 9, 4, 65, 12}));
}

TEST(FoldMatrices, MapBeforeAProjectionMultipliesEachHeadFromTheRight) {
  std::vector<double> weight{1, 2, 3, 4,  // output 0: heads of width 2 side by side
                             5, 6, 7, 8, 0, 1, -1, 0};
  fold_into_columns(weight, two(1, 10, 0, 2), 3);
  EXPECT_EQ(weight, (std::vector<double>{1, 14, 3, 38, 5, 62, 7, 86, 0, 2, -1, -10}));
}

TEST(FoldMatrices, GateActsOnTheMappedFeatureAsBeforeOnThePlainOne) {
  const Matrix up = two(2, 1, -1, 3), gate = two(0.5, -2, 4, 1);
  const Matrix r = gate_after_up(gate, up);
  const Eigen::Vector2d x(3, -5);
  EXPECT_LT((r * (up * x) - gate * x).cwiseAbs().maxCoeff(), 1e-14);
  EXPECT_GT((up * (r * x) - gate * x).cwiseAbs().maxCoeff(),
            1);  // the other order is another matrix
}

TEST(FoldMatrices, IdentityChangesNoBit) {
  const std::vector<double> start{0.1, 0.2, 0.3, 0.7, 1e-300, -3};
  std::vector<double> rows = start, columns = start;
  const Matrix identity = Matrix::Identity(2, 2), gate = two(0.1, 0.3, -0.7, 1e-9);
  fold_into_rows(rows, {.heads = 1, .width = 2, .stride = 2}, identity, 3);
  fold_into_columns(columns, identity, 3);
  EXPECT_EQ(rows, start);
  EXPECT_EQ(columns, start);
  EXPECT_EQ(gate_after_up(gate, identity), gate);
}

}  // namespace
}  // namespace kha
