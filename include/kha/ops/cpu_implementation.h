// Which implementation float32 tensors on the CPU get: printable, forceable by name.
#pragma once

#include <string>

#include "kha/kernels/cpu_kernels.h"
#include "kha/ops/export.h"

namespace kha::ops {

// "avx512", "avx2" or "scalar": kha's kernels for that instruction set. "aten": torch's operators
// composed, as other dtypes and devices run. Without a choice it is the widest set that the
// processor has, and "aten" where it has no vectors that kha's kernels know.
//
// The environment variable KHA_CPU makes the choice for a process; set_cpu_implementation makes it
// for what follows, "auto" takes it back. Errors: c10::ValueError for a name that is unknown, or
// whose instructions this processor lacks, with the names that work here.
KHA_API std::string cpu_implementation();
KHA_API void set_cpu_implementation(const std::string& name);

// The kernels of the choice; null means "aten".
KHA_API const CpuKernels* chosen_cpu_kernels();

}  // namespace kha::ops
