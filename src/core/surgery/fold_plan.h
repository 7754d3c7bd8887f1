// What becomes of each map: decided from its kind, its place and its matrices, before any file is
// written.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/surgery/fold_matrices.h"
#include "kha/core/attention_system.h"
#include "kha/core/fold.h"
#include "kha/core/model_files.h"

namespace kha {

// The matrices of one map by suffix ("weight", "up.weight", …), as stored.
using MapMatrices = std::map<std::string, Matrix>;

struct MapFold {
  FoldOutcome outcome = FoldOutcome::kept;
  KnockKind after = KnockKind::none;
  std::optional<Matrix> into_projection = {};
  std::optional<Matrix> into_output = {};
  MapMatrices written = {};  // new values of matrices that stay
  std::optional<double> condition = {};
  std::string reason = {};
};

MapFold plan_map(KnockKind kind, const KnockPlace& place, const MapMatrices& matrices,
                 double condition_limit);

// Changes a tensor's values in place.
using TensorEdit = std::function<void(std::span<double>)>;

struct FoldPlan {
  std::vector<FoldedMap> maps;
  ModelConfig after;
  std::map<std::string, TensorEdit> edits;  // by tensor name; the others keep their bytes
};

// A map's matrix by tensor name. Errors: values that are not finite.
Matrix read_map(const ModelFiles& files, const std::string& name);

// `read` gives a map's matrix by tensor name.
FoldPlan plan_fold(const ModelConfig& config, const FoldOptions& options,
                   const std::function<Matrix(const std::string&)>& read);

// Per-layer maps as one setting and its exceptions: the setting is what most layers have.
ModelKnocks as_model_knocks(const std::vector<LayerKnocks>& layers);

}  // namespace kha
