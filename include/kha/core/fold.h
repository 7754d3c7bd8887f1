// Folding maps into the projections beside them: the model computes the same with fewer products.
//
//   linear        y = x T                         into q/k/v_proj (weight and bias): gone
//   mlp on V      y = 2 (x U * sigmoid(x G)) W    U into v_proj, W into o_proj; what remains is
//                                                 the kind `gate` with R = U^-1 G
//   mlp on Q, K;  gate                            stay as they are
//
// Everything is computed in float64 and rounded once to the tensor's own type. Where the condition
// number of U is above a limit, U^-1 is not formed: `up` and `gate` stay, W still goes into o_proj,
// `down` becomes the identity and the kind stays `mlp`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kha/core/knock_setting.h"
#include "kha/core/model_config.h"

namespace kha {

struct FoldOptions {
  double condition_limit = 1e4;  // of U; at least 1
};

enum class FoldOutcome { folded, became_gate, down_only, kept };

struct FoldedMap {
  int64_t layer;
  KnockSlot slot;
  KnockKind before;
  KnockKind after;
  FoldOutcome outcome;
  std::optional<double> condition;  // of U, where it was asked for; infinity when singular
  std::string reason;               // of what stayed; empty when all of it is gone
};

struct FoldReport {
  std::vector<FoldedMap> maps;  // by layer
  ModelConfig before;
  ModelConfig after;
  double condition_limit;
  std::vector<std::string> warnings;  // of check_tensors
  std::vector<std::string> copied;    // files that were taken along
  std::vector<std::string> left_out;  // files and folders that were not: they hold the old weights
};

// Reads the model folder `in`, writes the folded model to the new folder `out`: same files, same
// shards, same types, other files (tokenizer, licence) copied. `out` appears whole or not at all.
//
// Errors: `in` is no model or a damaged checkpoint; tensors and config.json do not fit; there are
// no maps; none of them folds; a map or a folded weight is not finite; `out` exists; the disk.
FoldReport fold_model(const std::filesystem::path& in, const std::filesystem::path& out,
                      const FoldOptions& options = {});

}  // namespace kha
