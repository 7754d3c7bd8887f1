#include "core/surgery/fold_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "kha/core/error.h"
#include "kha/core/map_report.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

MapFold keep(KnockKind kind, const std::string& reason) {
  return {.outcome = FoldOutcome::kept, .after = kind, .reason = reason};
}

// The mlp map on values. Attention is linear in them, so W always leaves; U leaves when U^-1 is
// safe to form.
MapFold plan_mlp_on_values(const MapMatrices& m, double limit) {
  const Matrix& up = m.at("up.weight");
  const Matrix& down = m.at("down.weight");
  const double condition = condition_number({up.data(), static_cast<size_t>(up.size())});
  MapFold fold{.condition = condition};
  const Matrix identity = Matrix::Identity(up.rows(), up.cols());
  if (std::isfinite(condition) && condition <= limit) {
    fold.outcome = FoldOutcome::became_gate;
    fold.after = KnockKind::gate;
    fold.into_projection = up;
    fold.into_output = down;
    fold.written["gate.weight"] = gate_after_up(m.at("gate.weight"), up);
    fold.reason = "up went into the projection and down into o_proj; the gate stays";
    return fold;
  }
  fold.after = KnockKind::mlp;
  fold.reason = fmt::format("the condition number of up, {:.3g}, is above {:g}: up and gate stay",
                            condition, limit);
  if (down == identity) return fold;  // already folded as far as it goes
  fold.outcome = FoldOutcome::down_only;
  fold.into_output = down;
  fold.written["down.weight"] = identity;
  return fold;
}

MapFold fold_linear(const Matrix& map, FoldHome home) {
  MapFold fold{.outcome = FoldOutcome::folded, .after = KnockKind::none};
  switch (home) {
    case FoldHome::projection:
      fold.into_projection = map;
      break;
    case FoldHome::queries:  // q . (M k) = (M^T q) . k
      fold.into_projection = map.transpose();
      break;
    case FoldHome::output:
      fold.into_output = map;
      break;
  }
  return fold;
}

class Planner {
 public:
  Planner(const ModelConfig& config, const FoldOptions& options,
          const std::function<Matrix(const std::string&)>& read)
      : config_(config),
        options_(options),
        read_(read),
        system_(attention_declaration(config.attention, "")) {}

  FoldPlan run() {
    std::vector<LayerKnocks> layers;
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      LayerKnocks after;
      for (const KnockPlace& place : system_.places) after.at(place.slot) = fold_map(layer, place);
      layers.push_back(after);
    }
    plan_.after = config_;
    plan_.after.knocks = as_model_knocks(layers);
    return std::move(plan_);
  }

 private:
  KnockKind fold_map(int64_t layer, const KnockPlace& place) {
    const KnockKind kind = config_.knocks.at(layer).at(place.slot);
    if (kind == KnockKind::none) return kind;
    MapMatrices matrices;
    for (const auto& tensor : knock_tensors(kind)) {
      matrices[tensor.suffix] = read_(knock_name(layer, place.slot, tensor.suffix));
    }
    const MapFold fold = plan_map(kind, place, matrices, options_.condition_limit);
    add_edits(layer, place, fold);
    plan_.maps.push_back(
        {layer, place.slot, kind, fold.after, fold.outcome, fold.condition, fold.reason});
    return fold.after;
  }

  void add_edits(int64_t layer, const KnockPlace& place, const MapFold& fold) {
    const std::string prefix = attention_prefix(layer);
    const int64_t width = config_.hidden_size;
    if (fold.into_projection) add_rows(prefix, place, *fold.into_projection);
    if (fold.into_output) {
      const auto map = std::make_shared<const Matrix>(*fold.into_output);
      plan_.edits[prefix + "o_proj.weight"] = [map, width](std::span<double> weight) {
        fold_into_columns(weight, *map, width);
      };
    }
    for (const auto& [suffix, value] : fold.written) {
      plan_.edits[knock_name(layer, place.slot, suffix)] = [value](std::span<double> weight) {
        std::copy_n(value.data(), value.size(), weight.begin());
      };
    }
  }

  // Two maps may go into one projection, in the order of the slots.
  void add_rows(const std::string& prefix, const KnockPlace& place, const Matrix& map) {
    const auto edit = [&](const std::string& name, int64_t inputs) {
      plan_.edits[name] = [before = plan_.edits[name], map = std::make_shared<const Matrix>(map),
                           rows = place.rows(config_), inputs](std::span<double> weight) {
        if (before) before(weight);
        fold_into_rows(weight, rows, *map, inputs);
      };
    };
    for (const AttentionTensor& tensor : system_.tensors(config_)) {
      if (tensor.name != place.projection(config_)) continue;
      edit(prefix + tensor.name + ".weight", tensor.inputs);
      if (tensor.may_have_bias && config_.attention_bias) edit(prefix + tensor.name + ".bias", 1);
    }
  }

  const ModelConfig& config_;
  const FoldOptions& options_;
  const std::function<Matrix(const std::string&)>& read_;
  const AttentionDeclaration& system_;
  FoldPlan plan_;
};

}  // namespace

MapFold plan_map(KnockKind kind, const KnockPlace& place, const MapMatrices& matrices,
                 double condition_limit) {
  if (kind == KnockKind::linear) return fold_linear(matrices.at("weight"), place.linear_into);
  if (kind == KnockKind::mlp && place.values) return plan_mlp_on_values(matrices, condition_limit);
  const std::string slot = to_string(place.slot);
  if (kind == KnockKind::mlp) {
    return keep(kind,
                "what follows " + slot + " is not linear in it, so an mlp map there does not fold");
  }
  return keep(kind, "a gate depends on its input, so it does not fold");
}

ModelKnocks as_model_knocks(const std::vector<LayerKnocks>& layers) {
  const auto count = [&](const LayerKnocks& knocks) {
    return std::count(layers.begin(), layers.end(), knocks);
  };
  ModelKnocks model;
  model.all = *std::max_element(layers.begin(), layers.end(),
                                [&](const auto& a, const auto& b) { return count(a) < count(b); });
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer] != model.all) model.layers[static_cast<int64_t>(layer)] = layers[layer];
  }
  return model;
}

Matrix read_map(const ModelFiles& files, const std::string& name) {
  const std::vector<double> values = files.as_double(name);
  const int64_t width = files.at(name).shape.front();
  const Matrix matrix = Eigen::Map<const Matrix>(values.data(), width, width);
  if (!matrix.allFinite()) {
    fail({.what = name + " holds values that are not finite, so it cannot be folded",
          .where = files.file_of(name).string(),
          .cause = "the training run diverged",
          .next = "use an earlier checkpoint"});
  }
  return matrix;
}

FoldPlan plan_fold(const ModelConfig& config, const FoldOptions& options,
                   const std::function<Matrix(const std::string&)>& read) {
  return Planner(config, options, read).run();
}

}  // namespace kha
