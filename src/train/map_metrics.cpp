#include "train/map_metrics.h"

#include <ATen/Functions.h>

#include <cmath>

#include "kha/core/map_report.h"

namespace kha {
namespace {

MatrixFigures figures_of(const at::Tensor& matrix, bool starts_at_identity) {
  const at::Tensor wide = matrix.detach().cpu().to(at::kDouble).contiguous();
  return matrix_figures({wide.const_data_ptr<double>(), static_cast<size_t>(wide.numel())},
                        starts_at_identity);
}

// "weight" is T; "up.weight" is up.
std::string matrix_name(const std::string& suffix) {
  return suffix == "weight" ? "T" : suffix.substr(0, suffix.find('.'));
}

}  // namespace

void add_map_metrics(const Session& session, nlohmann::ordered_json& line) {
  const ModelConfig& c = session.config.model;
  nlohmann::ordered_json distances, conditions, diagonals, shares;
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    for (const KnockSlot slot : knock_slots) {
      for (const auto& tensor : knock_tensors(c.knocks.at(layer).at(slot))) {
        const auto figures =
            figures_of(session.parameters.at(knock_name(layer, slot, tensor.suffix)),
                       tensor.starts_at_identity);
        const std::string key =
            std::to_string(layer) + "." + to_string(slot) + "." + matrix_name(tensor.suffix);
        distances[key] = figures.identity_distance;
        conditions[key] = figures.condition;
        diagonals[key] = figures.diagonal_mean;
        shares[key] = figures.off_diagonal_share;
      }
    }
  }
  if (distances.empty()) return;
  line["kha/identity_distance"] = distances;
  line["kha/condition"] = conditions;
  if (!session.config.metrics.maps) return;
  line["kha/diagonal_mean"] = diagonals;
  line["kha/off_diagonal_share"] = shares;
}

}  // namespace kha
