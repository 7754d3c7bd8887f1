// Every operator three ways: kha's, a composition of torch's own operators, the double reference.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kha/kernels/reference.h"
#include "kha/ops/knock.h"
#include "ops/cases.h"

namespace kha::test {

using Tensors = std::vector<at::Tensor>;

// Arguments are x, then the matrices in the schema's order (an absent bias is left out).
struct Operator {
  std::string name;
  std::function<Tensors(const Case&)> arguments;
  std::function<at::Tensor(const Tensors&)> call;
  std::function<at::Tensor(const Tensors&)> compose;
  // Double arguments and gradient of the result in; the result and every gradient out.
  std::function<Tensors(const Tensors&, const at::Tensor&)> reference;
};

inline at::Tensor features(const Case& c) {
  auto shape = c.leading;
  shape.insert(shape.end(), {c.heads, c.dim});
  return lay_out(at::randn(shape, c.dtype), c.layout);
}

inline at::Tensor matrix(const Case& c, std::int64_t rows, std::int64_t columns) {
  return (at::randn({rows, columns}, at::kDouble) / std::sqrt(double(columns))).to(c.dtype);
}

inline at::Tensor square(const Case& c) { return matrix(c, c.dim, c.dim); }

inline Rows<double> rows_of(const at::Tensor& t) {
  return adjacent_rows(t.data_ptr<double>(), t.numel() / t.size(-1), t.size(-1));
}

inline double* pointer(const at::Tensor& t) { return t.data_ptr<double>(); }

// Tensors of the arguments' shapes, NaN until written: y first where `result` is given.
inline Tensors unwritten(const Tensors& arguments, const at::Tensor& result) {
  Tensors out = {at::full_like(result, NAN)};
  for (const auto& argument : arguments) out.push_back(at::full_like(argument, NAN));
  return out;
}

inline Operator linear_operator() {
  return {
      "knock_linear",
      [](const Case& c) {
        return Tensors{features(c), square(c)};
      },
      [](const Tensors& a) { return kha::ops::knock_linear(a[0], a[1]); },
      [](const Tensors& a) { return at::linear(a[0], a[1]); },
      [](const Tensors& a, const at::Tensor& grad) {
        Tensors out = unwritten(a, grad);
        reference::knock_linear(rows_of(a[0]), pointer(a[1]), rows_of(out[0]));
        reference::knock_linear_backward(rows_of(grad), rows_of(a[0]), pointer(a[1]),
                                         rows_of(out[1]), pointer(out[2]));
        return out;
      },
  };
}

inline Operator gate_operator() {
  return {
      "knock_gate",
      [](const Case& c) {
        return Tensors{features(c), square(c)};
      },
      [](const Tensors& a) { return kha::ops::knock_gate(a[0], a[1]); },
      [](const Tensors& a) { return a[0] * (2 * at::sigmoid(at::linear(a[0], a[1]))); },
      [](const Tensors& a, const at::Tensor& grad) {
        Tensors out = unwritten(a, grad);
        reference::knock_gate(rows_of(a[0]), pointer(a[1]), rows_of(out[0]));
        reference::knock_gate_backward(rows_of(grad), rows_of(a[0]), pointer(a[1]), rows_of(out[1]),
                                       pointer(out[2]));
        return out;
      },
  };
}

inline Tensors mlp_reference(const Tensors& a, const at::Tensor& grad) {
  Tensors out = unwritten(a, grad);
  const reference::MlpWeights weights{pointer(a[1]), pointer(a[2]), pointer(a[3])};
  const at::Tensor workspace = at::full({3 * a[0].size(-1)}, NAN, at::kDouble);
  reference::knock_mlp(rows_of(a[0]), weights, rows_of(out[0]), pointer(workspace));
  reference::knock_mlp_backward(rows_of(grad), rows_of(a[0]), weights, rows_of(out[1]),
                                {pointer(out[2]), pointer(out[3]), pointer(out[4])},
                                pointer(workspace));
  return out;
}

inline Operator mlp_operator() {
  return {
      "knock_mlp",
      [](const Case& c) {
        return Tensors{features(c), square(c), square(c), square(c)};
      },
      [](const Tensors& a) { return kha::ops::knock_mlp(a[0], a[1], a[2], a[3]); },
      [](const Tensors& a) {
        return at::linear(at::linear(a[0], a[1]) * (2 * at::sigmoid(at::linear(a[0], a[2]))), a[3]);
      },
      mlp_reference,
  };
}

inline Tensors projection_reference(const Tensors& a, const at::Tensor& grad) {
  const bool has_bias = a.size() == 4;
  Tensors out = unwritten(a, grad);
  const auto rows = a[1].size(0), width = a[1].size(1), dim = a.back().size(0);
  const reference::Projection projection{pointer(a[1]), has_bias ? pointer(a[2]) : nullptr,
                                         pointer(a.back()), rows / dim, dim};
  const at::Tensor workspace = at::full({rows * (2 * width + 1)}, NAN, at::kDouble);
  reference::knocked_linear(rows_of(a[0]), projection, rows_of(out[0]), pointer(workspace));
  reference::knocked_linear_backward(
      rows_of(grad), rows_of(a[0]), projection, rows_of(out[1]),
      {pointer(out[2]), has_bias ? pointer(out[3]) : nullptr, pointer(out.back())},
      pointer(workspace));
  return out;
}

// x: [..., heads, d] with d = 2 D + 1, so that no size can be mistaken for another.
inline Operator projection_operator(bool has_bias) {
  return {
      has_bias ? "knocked_linear with bias" : "knocked_linear",
      [has_bias](const Case& c) {
        Case wide = c;
        wide.dim = 2 * c.dim + 1;
        Tensors a = {features(wide), matrix(c, c.heads * c.dim, wide.dim)};
        if (has_bias) a.push_back(at::randn({c.heads * c.dim}, c.dtype));
        a.push_back(square(c));
        return a;
      },
      [has_bias](const Tensors& a) {
        const auto bias = has_bias ? std::optional(a[2]) : std::nullopt;
        return kha::ops::knocked_linear(a[0], a[1], bias, a.back());
      },
      [has_bias](const Tensors& a) {
        const auto dim = a.back().size(0);
        const auto bias = has_bias ? std::optional(a[2]) : std::nullopt;
        const auto weight = at::matmul(a.back(), a[1].view({-1, dim, a[1].size(1)})).flatten(0, 1);
        if (!has_bias) return at::linear(a[0], weight);
        return at::linear(a[0], weight, at::linear(bias->view({-1, dim}), a.back()).flatten());
      },
      projection_reference,
  };
}

inline std::vector<Operator> all_operators() {
  return {linear_operator(), gate_operator(), mlp_operator(), projection_operator(true),
          projection_operator(false)};
}

// Detached, strides kept, ready to receive gradients.
inline Tensors as_leaves(const Tensors& arguments) {
  Tensors leaves;
  for (const auto& a : arguments) leaves.push_back(a.detach().requires_grad_());
  return leaves;
}

inline Tensors in_double(const Tensors& arguments) {
  Tensors out;
  for (const auto& a : arguments) out.push_back(a.detach().to(at::kDouble).contiguous());
  return out;
}

// The result and the gradient of every argument, in double.
inline Tensors run(const std::function<at::Tensor(const Tensors&)>& function,
                   const Tensors& arguments, const at::Tensor& grad) {
  const Tensors leaves = as_leaves(arguments);
  const at::Tensor y = function(leaves);
  y.backward(grad);
  Tensors out = {y};
  for (const auto& leaf : leaves) out.push_back(leaf.grad());
  return in_double(out);
}

}  // namespace kha::test
