// The maps' figures in metrics.jsonl: distance from the identity and condition number.
#pragma once

#include <nlohmann/json.hpp>

#include "train/session.h"

namespace kha {

// Adds "kha/identity_distance" and "kha/condition", each an object of "LAYER.SLOT.MATRIX" ->
// figure; nothing for a model without maps. A singular matrix has the condition null.
void add_map_metrics(const Session& session, nlohmann::ordered_json& line);

}  // namespace kha
