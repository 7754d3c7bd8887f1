#include "kha/core/map_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "surgery/tiny_model.h"

namespace kha {
namespace {

using testing::HasSubstr;
using enum KnockKind;

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(MatrixFigures, IdentityIsWhereAMapStarts) {
  const MatrixFigures f = matrix_figures(std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1}, true);
  EXPECT_EQ(f.identity_distance, 0);
  EXPECT_NEAR(f.condition, 1, 1e-15);
  EXPECT_EQ(f.diagonal_mean, 1);
  EXPECT_EQ(f.diagonal_min, 1);
  EXPECT_EQ(f.diagonal_max, 1);
  EXPECT_EQ(f.off_diagonal_share, 0);
}

TEST(MatrixFigures, ZeroIsWhereAGateStarts) {
  const MatrixFigures f = matrix_figures(std::vector<double>(9, 0.0), false);
  EXPECT_EQ(f.identity_distance, 0);
  EXPECT_EQ(f.condition, infinity);
  EXPECT_EQ(f.off_diagonal_share, 0);
}

// M = [3 4; 0 2]: singular values follow from trace and determinant of M^T M.
TEST(MatrixFigures, ByHand) {
  const std::vector<double> m{3, 4, 0, 2};
  const MatrixFigures f = matrix_figures(m, true);
  EXPECT_NEAR(f.identity_distance, std::sqrt((4.0 + 16 + 0 + 1) / 2), 1e-15);
  EXPECT_NEAR(matrix_figures(m, false).identity_distance, std::sqrt(29.0 / 2), 1e-15);
  const double trace = 29, determinant = 36, root = std::sqrt(trace * trace - 4 * determinant);
  EXPECT_NEAR(f.condition, std::sqrt((trace + root) / (trace - root)), 1e-14);
  EXPECT_EQ(f.diagonal_mean, 2.5);
  EXPECT_EQ(f.diagonal_min, 2);
  EXPECT_EQ(f.diagonal_max, 3);
  EXPECT_NEAR(f.off_diagonal_share, 16.0 / 29, 1e-15);
}

TEST(MatrixFigures, SingularIsInfinite) {
  EXPECT_EQ(condition_number(std::vector<double>{1, 2, 2, 4}), infinity);
  EXPECT_EQ(condition_number(std::vector<double>{0}), infinity);
  EXPECT_NEAR(condition_number(std::vector<double>{1, 0, 0, 1e-9}) / 1e9, 1, 1e-6);
}

TEST(MatrixFigures, NotFiniteIsNaNThroughout) {
  for (const double bad : {infinity, std::nan("")}) {
    const MatrixFigures f = matrix_figures(std::vector<double>{1, bad, 0, 1}, true);
    EXPECT_TRUE(std::isnan(f.identity_distance));
    EXPECT_TRUE(std::isnan(f.condition));
    EXPECT_TRUE(std::isnan(f.off_diagonal_share));
  }
}

class MapReport : public testing::Test {
 protected:
  void SetUp() override {
    config_ = tiny_config({linear, none, mlp});
    config_.knocks.layers[1] = {none, gate, none};
    tensors_ = random_tensors(config_);
  }
  std::vector<MapFigures> report() {
    write_model(folder_ / "m", config_, tensors_);
    return map_report(ModelFiles::open(folder_ / "m"), config_);
  }

  TempFolder folder_;
  ModelConfig config_;
  Tensors tensors_;
};

TEST_F(MapReport, EveryMatrixOfEveryMapByLayer) {
  std::vector<std::string> lines;
  for (const auto& map : report()) {
    lines.push_back(std::to_string(map.layer) + to_string(map.slot) + " " + to_string(map.kind) +
                    " " + map.matrix);
    const auto figures = matrix_figures(tensors_.at(map.tensor), map.matrix != "gate");
    EXPECT_EQ(map.figures.identity_distance, figures.identity_distance) << map.tensor;
    EXPECT_LT(map.figures.identity_distance, 1.5) << map.tensor;  // noise of 0.3 in 6 columns
  }
  EXPECT_THAT(lines, testing::ElementsAre("0q linear T", "0v mlp up", "0v mlp gate", "0v mlp down",
                                          "1k gate gate"));
}

TEST_F(MapReport, TableHasALineAMatrix) {
  const std::string table = to_table(report());
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 6);
  EXPECT_THAT(table, HasSubstr("condition"));
  EXPECT_THAT(table, HasSubstr("linear"));
  EXPECT_EQ(to_table({}), "");
}

TEST_F(MapReport, JsonSaysNullForWhatItCannotSay) {
  std::fill(tensors_["model.layers.1.self_attn.knock_k.gate.weight"].begin(),
            tensors_["model.layers.1.self_attn.knock_k.gate.weight"].end(), 0.0);
  const auto json = nlohmann::json::parse(to_json(report()));
  ASSERT_EQ(json.size(), 5u);
  EXPECT_EQ(json[4]["tensor"], "model.layers.1.self_attn.knock_k.gate.weight");
  EXPECT_TRUE(json[4]["condition"].is_null());
  EXPECT_EQ(json[4]["singular"], true);
  EXPECT_EQ(json[4]["identity_distance"], 0.0);
  EXPECT_EQ(json[0]["singular"], false);
  EXPECT_GT(json[0]["condition"], 1.0);
  EXPECT_EQ(json[0]["slot"], "q");
}

}  // namespace
}  // namespace kha
