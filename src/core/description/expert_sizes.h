// The sizes of a mixture that every class with experts has, whatever it calls them.
#pragma once

#include <initializer_list>

#include "core/description/object_reader.h"
#include "kha/core/expert_config.h"

namespace kha {

// The size under one of its names; two names with two values contradict each other.
void read_one_of(ObjectReader& in, std::initializer_list<const char*> names, int64_t& value);

void read_groups(ObjectReader& in, ExpertConfig& experts);

}  // namespace kha
