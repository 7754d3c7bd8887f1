// The speed that a figure is a share of: multiply-adds with every operand in a register.
#pragma once

#include <cstdint>

#include "kha/ops/export.h"

namespace kha::ops {

// Operations a second, 2 for each float32 multiply-add, that `threads` threads make together when
// they do nothing else for about `seconds`; on the widest instruction set of the processor,
// whatever cpu_implementation() says. One reading: a busy machine lowers it, so take several.
// Errors: c10::ValueError for fewer than 1 or more than 4,096 threads, and for a time that is not
// between 0 and 60 seconds.
KHA_API double measure_ceiling(std::int64_t threads, double seconds);

}  // namespace kha::ops
