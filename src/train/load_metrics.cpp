#include "train/load_metrics.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "train/balance.h"

namespace kha {

void add_load_metrics(const ExpertCounts& counts, bool all, nlohmann::ordered_json& line) {
  const LoadFigures figures = load_figures(counts);
  if (figures.of_layer.empty()) return;  // every layer is dense
  line["moe/load_max"] = figures.largest;
  line["moe/load_min"] = figures.smallest;
  line["moe/dead"] = figures.dead;
  line["moe/max_vio"] = figures.max_violation;
  if (all) line["moe/load_entropy"] = figures.evenness;
}

void add_global_load_metrics(const ExpertCounts& counts, bool all, nlohmann::ordered_json& line) {
  const LoadFigures figures = load_figures(counts);
  if (figures.of_layer.empty()) return;
  line["moe/max_vio_global"] = figures.max_violation;
  if (!all) return;
  for (const auto& [layer, violation] : figures.of_layer) {
    line["moe/max_vio_global_by_layer"][std::to_string(layer)] = violation;
  }
}

void write_load(MetricsLog& log, const TrainingState& state, const ExpertCounts& counts) {
  nlohmann::ordered_json by_layer = nlohmann::ordered_json::object();
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    if (!counts[layer].defined()) continue;
    const at::Tensor adjacent = counts[layer].contiguous();
    const auto* first = adjacent.const_data_ptr<int64_t>();
    by_layer[std::to_string(layer)] = std::vector<int64_t>(first, first + adjacent.numel());
  }
  log.write({{"step", state.step}, {"tokens", state.tokens}, {"counts", by_layer}});
}

}  // namespace kha
