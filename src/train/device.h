// Tensors' devices by name. CUDA comes from libtorch_cuda.so, opened at run time.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace kha {

// "cpu" or "cuda". Fails with torch's own words where CUDA cannot be used.
at::Device open_device(const std::string& name);

}  // namespace kha
