// What the operators' ATen compositions share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace kha::ops {

// [..., D] as [rows, D]: a view where strides allow, else one copy. All products run on two
// dimensions, so that every result is contiguous and meta tensors can say so without computing.
inline at::Tensor to_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// f = 2 sigmoid(x G^T), what the mlp and gate maps multiply by. The factor 2 goes here, not to the
// product with the features: with G = 0 this is exactly 1 and even subnormal features stay.
inline at::Tensor gate_factor(const at::Tensor& x_rows, const at::Tensor& gate) {
  return x_rows.mm(gate.t()).sigmoid_().mul_(2);
}

// df/dlogit = 2 s (1 - s) = f (1 - f / 2).
inline at::Tensor gate_slope(const at::Tensor& factor) {
  return factor.mul(-0.5).add_(1).mul_(factor);
}

// A handle on the operator `name` of this library, for calls through the dispatcher.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

}  // namespace kha::ops
