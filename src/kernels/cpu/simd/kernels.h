// The kernels of one set; table.cpp lists them.
#pragma once

#include "kha/kernels/cpu_kernels.h"

namespace kha::cpu::KHA_SET {

double probe_multiply_add(std::int64_t rounds);

}  // namespace kha::cpu::KHA_SET
