// What a run is about to do: its model, what computes it, its groups of parameters.
#pragma once

#include "kha/core/progress.h"
#include "train/session.h"

namespace kha {

void print_session(const Session& session, Progress& progress);

}  // namespace kha
