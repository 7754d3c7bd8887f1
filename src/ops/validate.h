// The one validator of the operators' arguments, for CPU, CUDA and meta tensors, both directions.
//
// It reads shapes as symbolic integers, so that it also runs while torch.compile traces. What it
// refuses becomes a c10::ValueError naming operator, argument, received, allowed and fix.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string>

namespace kha::ops {

// An argument and the name it has in the schema.
struct Named {
  const char* name;
  const at::Tensor& tensor;
};

// "float32" and its like: the name Python users know, where it is one of ours.
std::string dtype_name(at::ScalarType type);
// Whether the tensor has exactly this shape.
bool has_shape(const at::Tensor& tensor, std::initializer_list<c10::SymInt> shape);
// The operator's first tensor: float32, float64, bfloat16 or float16.
void check_dtype(const char* op, Named first);
// Another tensor of the operator: the first one's device, or its dtype and device.
void check_device(const char* op, Named other, Named first);
void check_like(const char* op, Named other, Named first);

// x: [..., heads, D] with adjacent last dimension; every map: [D, D], x's dtype and device.
void check_knock(const char* op, const at::Tensor& x, std::initializer_list<Named> maps);

// x: [..., d]; weight: [heads * D, d]; bias: [heads * D]; map: [D, D]; one dtype, one device.
void check_knocked_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, const at::Tensor& map);

// grad: x's shape but for the last dimension, which is `width`; x's dtype and device.
void check_gradient(const char* op, const at::Tensor& grad, const at::Tensor& x,
                    const c10::SymInt& width);

}  // namespace kha::ops
