// A tensor that may be undefined, as the optional argument that operators take.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace kha {

inline std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

}  // namespace kha
