#include "kha/core/map_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/model_config.h"
#include "kha/core/model_files.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

// "up.weight" -> "up"; the one matrix of a linear map is T.
std::string matrix_name(const std::string& suffix) {
  return suffix == "weight" ? "T" : suffix.substr(0, suffix.find('.'));
}

std::vector<double> read_square(const ModelFiles& files, const std::string& name, int64_t size) {
  const std::vector<int64_t> expected{size, size};
  if (files.at(name).shape != expected) {
    fail({.what = name + " is not a square of the width that its map acts on",
          .where = files.file_of(name).string(),
          .expected = fmt::format("[{}, {}]", size, size)});
  }
  return files.as_double(name);
}

// JSON has neither infinity nor NaN.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace

std::vector<MapFigures> map_report(const ModelFiles& files, const ModelConfig& config) {
  std::vector<MapFigures> report;
  const auto& system = attention_declaration(config.attention, "");
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const KnockSlot slot : knock_slots) {
      const KnockKind kind = config.knocks.at(layer).at(slot);
      if (kind == KnockKind::none) continue;
      const int64_t width = system.place(slot).rows(config).width;
      for (const KnockTensor& tensor : knock_tensors(kind)) {
        const std::string name = knock_name(layer, slot, tensor.suffix);
        report.push_back(
            {layer, slot, kind, matrix_name(tensor.suffix), name,
             matrix_figures(read_square(files, name, width), tensor.starts_at_identity)});
      }
    }
  }
  return report;
}

std::string to_table(const std::vector<MapFigures>& report) {
  if (report.empty()) return "";
  std::string text = fmt::format("{:>5} {:>4} {:>6} {:>6} {:>10} {:>10} {:>9} {:>9} {:>9} {:>8}\n",
                                 "layer", "slot", "kind", "matrix", "identity", "condition",
                                 "diagonal", "lowest", "highest", "off-diag");
  for (const MapFigures& map : report) {
    const MatrixFigures& f = map.figures;
    text += fmt::format(
        "{:>5} {:>4} {:>6} {:>6} {:>10.4g} {:>10.4g} {:>9.4f} {:>9.4f} {:>9.4f} {:>7.1f}%\n",
        map.layer, to_string(map.slot), to_string(map.kind), map.matrix, f.identity_distance,
        f.condition, f.diagonal_mean, f.diagonal_min, f.diagonal_max, 100 * f.off_diagonal_share);
  }
  return text;
}

std::string to_json(const std::vector<MapFigures>& report) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MapFigures& map : report) {
    const MatrixFigures& f = map.figures;
    list.push_back({{"layer", map.layer},
                    {"slot", to_string(map.slot)},
                    {"kind", to_string(map.kind)},
                    {"matrix", map.matrix},
                    {"tensor", map.tensor},
                    {"identity_distance", number(f.identity_distance)},
                    {"condition", number(f.condition)},
                    {"singular", std::isinf(f.condition)},
                    {"diagonal_mean", number(f.diagonal_mean)},
                    {"diagonal_min", number(f.diagonal_min)},
                    {"diagonal_max", number(f.diagonal_max)},
                    {"off_diagonal_share", number(f.off_diagonal_share)}});
  }
  return list.dump(2);
}

}  // namespace kha
