// The fields of the table [data]: the text of a run.
#pragma once

#include <vector>

#include "kha/core/run_config.h"

namespace kha {

void add_data_fields(std::vector<Field>& fields, RunConfig& config);

}  // namespace kha
