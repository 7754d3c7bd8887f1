#include "model/tensor_bytes.h"

#include <ATen/Functions.h>

#include <cassert>
#include <cstring>

#include "kha/core/error.h"

namespace kha {
namespace {

at::ScalarType scalar_type_of(const TensorInfo& info) {
  switch (info.dtype) {
    case DType::f64:
      return at::kDouble;
    case DType::f32:
      return at::kFloat;
    case DType::f16:
      return at::kHalf;
    case DType::bf16:
      return at::kBFloat16;
    case DType::i64:
      return at::kLong;
    default:
      break;
  }
  fail({.what = "tensor `" + info.name + "` has a type that is not read here",
        .expected = "F64, F32, F16, BF16 or I64",
        .found = std::string(safetensors_name(info.dtype))});
}

}  // namespace

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::f64;
    case at::kFloat:
      return DType::f32;
    case at::kHalf:
      return DType::f16;
    case at::kBFloat16:
      return DType::bf16;
    case at::kLong:
      return DType::i64;
    default:
      assert(false && "a scalar type that no checkpoint holds");
      return DType::f32;
  }
}

std::vector<int64_t> shape_of(const at::Tensor& tensor) { return tensor.sizes().vec(); }

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  assert(tensor.is_contiguous() && tensor.is_cpu());
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void write_tensors(const std::filesystem::path& path,
                   const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, dtype_of(tensor.scalar_type()), shape_of(tensor)});
  }
  SafetensorsWriter writer(path, std::move(specs));
  for (const auto& [name, tensor] : tensors) {
    writer.write(name, bytes_of(tensor.detach().cpu().contiguous()));
  }
  writer.finish();
}

at::Tensor read_tensor(std::span<const std::byte> bytes, const TensorInfo& info) {
  at::Tensor tensor = at::empty(info.shape, scalar_type_of(info));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace kha
