// The one validator of the operators' arguments, for CPU, CUDA and meta tensors, both directions.
//
// It reads shapes as symbolic integers, so that it also runs while torch.compile traces. What it
// refuses becomes a c10::ValueError naming operator, argument, received, allowed and fix.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>

namespace kha::ops {

// An argument and the name it has in the schema.
struct Named {
  const char* name;
  const at::Tensor& tensor;
};

// x: [..., heads, D] with adjacent last dimension; every map: [D, D], x's dtype and device.
void check_knock(const char* op, const at::Tensor& x, std::initializer_list<Named> maps);

// x: [..., d]; weight: [heads * D, d]; bias: [heads * D]; map: [D, D]; one dtype, one device.
void check_knocked_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, const at::Tensor& map);

// grad: x's shape but for the last dimension, which is `width`; x's dtype and device.
void check_gradient(const char* op, const at::Tensor& grad, const at::Tensor& x,
                    const c10::SymInt& width);

}  // namespace kha::ops
