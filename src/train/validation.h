// The held-out loss of a run: of all its sources together, and of each.
#pragma once

#include <nlohmann/json.hpp>

#include "train/evaluate.h"
#include "train/session.h"

namespace kha {

// All sources together, each with its share of the tokens that an evaluation may read. Where there
// are several, `line` gets "val/loss/PATH" of each, which is printed too.
Evaluation validate_sources(const Session& session, nlohmann::ordered_json& line,
                            Progress& progress);

}  // namespace kha
