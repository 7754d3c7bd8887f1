// Tensors as the bytes of a safetensors file, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "kha/core/safetensors.h"

namespace kha {

// Of float32, float64, float16, bfloat16 and int64; another scalar type is a bug.
DType dtype_of(at::ScalarType type);

std::vector<int64_t> shape_of(const at::Tensor& tensor);

// The elements of a contiguous CPU tensor, without a copy.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);

// A file of named tensors, written in the order given; device tensors are copied to the CPU.
void write_tensors(const std::filesystem::path& path,
                   const std::vector<std::pair<std::string, at::Tensor>>& tensors);

// One tensor of a file as stored, copied: the file may change afterwards.
at::Tensor read_tensor(std::span<const std::byte> bytes, const TensorInfo& info);

}  // namespace kha
