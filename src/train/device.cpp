#include "train/device.h"

#include <ATen/Functions.h>
#include <dlfcn.h>

#include "kha/core/error.h"

namespace kha {
namespace {

// A CPU-only torch has no such library; a CUDA one registers its kernels when it is opened.
void open_cuda_library() {
  static const void* const handle = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (handle) return;
  fail({.what = "this torch has no CUDA",
        .where = "device = \"cuda\"",
        .found = dlerror(),
        .next = "install a CUDA build of torch, or choose the device cpu"});
}

}  // namespace

at::Device open_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  open_cuda_library();
  try {
    at::empty({1}, at::TensorOptions().device(at::kCUDA)).zero_();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    fail({.what = "CUDA cannot be used",
          .where = "device = \"cuda\"",
          .found = text.substr(0, text.find('\n')),
          .cause = "no GPU, or no driver for it",
          .next = "run `nvidia-smi`, or choose the device cpu"});
  }
  return at::kCUDA;
}

}  // namespace kha
