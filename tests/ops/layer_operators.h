// Norm, rotation and SwiGLU three ways: kha's, a composition of torch's own, the double reference.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kha/kernels/reference_layers.h"
#include "kha/ops/layers.h"
#include "ops/cases.h"

namespace kha::test {

using Tensors = std::vector<at::Tensor>;

struct LayerCase {
  std::vector<std::int64_t> shape;
  Layout layout = Layout::contiguous;
  at::ScalarType dtype = at::kFloat;

  std::string name() const {
    std::ostringstream text;
    text << dtype << " " << at::IntArrayRef(shape) << " layout " << static_cast<int>(layout);
    return text.str();
  }
};

constexpr double test_eps = 1e-3;  // large enough to be seen

struct LayerOperator {
  std::string name;
  std::vector<std::vector<std::int64_t>> shapes;
  std::size_t differentiable;  // of the arguments, the first ones
  std::function<Tensors(const LayerCase&)> arguments;
  std::function<at::Tensor(const Tensors&)> call;
  std::function<at::Tensor(const Tensors&)> compose;
  // Double arguments and gradient of the result in; the result and every gradient out.
  std::function<Tensors(const Tensors&, const at::Tensor&)> reference;
};

inline at::Tensor random_input(const LayerCase& c) {
  const at::Tensor values = at::randn(c.shape, at::kDouble).to(c.dtype);
  return c.shape.size() < 2 ? values : lay_out(values, c.layout);
}

inline at::Tensor random_vector(const LayerCase& c) {
  return at::randn({c.shape.back()}, at::kDouble).to(c.dtype);
}

inline Rows<double> layer_rows(const at::Tensor& t) {
  return adjacent_rows(t.data_ptr<double>(), t.numel() / t.size(-1), t.size(-1));
}

inline at::Tensor poisoned(const at::Tensor& like) { return at::full_like(like, NAN); }

inline at::Tensor torch_norm(const at::Tensor& x, const at::Tensor& weight) {
  const bool narrow = x.scalar_type() != at::kDouble && x.scalar_type() != at::kFloat;
  const at::Tensor wide = narrow ? x.to(at::kFloat) : x;
  const at::Tensor quotient = wide * at::rsqrt(wide.pow(2).mean(-1, true) + test_eps);
  return weight * quotient.to(x.scalar_type());
}

inline LayerOperator norm_layer() {
  return {
      .name = "rms_norm",
      // Rows of 0, 1, odd, and of several pieces; widths around every vector's.
      .shapes = {{1},
                 {7},
                 {1, 8},
                 {0, 8},
                 {3, 9},
                 {2, 0, 16},
                 {5, 15},
                 {17, 16},
                 {2, 3, 17},
                 {4, 31},
                 {3, 33},
                 {131, 24},
                 {2, 100, 64},
                 {5, 1, 130}},
      .differentiable = 2,
      .arguments =
          [](const LayerCase& c) {
            return Tensors{random_input(c), random_vector(c)};
          },
      .call = [](const Tensors& a) { return kha::ops::rms_norm(a[0], a[1], test_eps); },
      .compose = [](const Tensors& a) { return torch_norm(a[0], a[1]); },
      .reference =
          [](const Tensors& a, const at::Tensor& grad) {
            Tensors out = {poisoned(a[0]), poisoned(a[0]), poisoned(a[1])};
            const double* weight = a[1].data_ptr<double>();
            reference::rms_norm(layer_rows(a[0]), weight, test_eps, layer_rows(out[0]));
            reference::rms_norm_backward(layer_rows(grad), layer_rows(a[0]), weight, test_eps,
                                         layer_rows(out[1]), out[2].data_ptr<double>());
            return out;
          },
  };
}

inline at::Tensor torch_norm_rope(const Tensors& a) {
  const at::Tensor n = torch_norm(a[0], a[1]);
  const auto half = n.size(3) / 2;
  const at::Tensor pair = at::cat({-n.narrow(3, half, half), n.narrow(3, 0, half)}, -1);
  return n * a[2].unsqueeze(1) + pair * a[3].unsqueeze(1);
}

inline Tensors norm_rope_reference(const Tensors& a, const at::Tensor& grad) {
  Tensors out = {poisoned(a[0]), poisoned(a[0]), poisoned(a[1])};
  const double* weight = a[1].data_ptr<double>();
  const reference::Rotation table{a[2].data_ptr<double>(), a[3].data_ptr<double>(), a[0].size(1),
                                  a[0].size(2)};
  const at::Tensor workspace = poisoned(a[1]);
  reference::norm_rope(layer_rows(a[0]), weight, test_eps, table, layer_rows(out[0]));
  reference::norm_rope_backward(layer_rows(grad), layer_rows(a[0]), weight, test_eps, table,
                                layer_rows(out[1]), out[2].data_ptr<double>(),
                                workspace.data_ptr<double>());
  return out;
}

// cos and sin are no angle's: halves that differ show which one is read.
inline LayerOperator norm_rope_layer() {
  return {
      .name = "norm_rope",
      .shapes = {{1, 1, 1, 2},
                 {1, 3, 2, 6},
                 {2, 0, 3, 8},
                 {0, 5, 2, 8},
                 {2, 5, 3, 14},
                 {1, 7, 1, 16},
                 {3, 4, 2, 18},
                 {2, 3, 2, 32},
                 {1, 5, 3, 34},
                 {2, 35, 4, 24},
                 {1, 130, 2, 64},
                 {2, 2, 3, 128}},
      .differentiable = 2,
      .arguments =
          [](const LayerCase& c) {
            const std::vector<std::int64_t> table{c.shape[1], c.shape[3]};
            const auto angles = [&] { return at::randn(table, at::kDouble).to(c.dtype); };
            return Tensors{random_input(c), random_vector(c), angles(), angles()};
          },
      .call =
          [](const Tensors& a) { return kha::ops::norm_rope(a[0], a[1], test_eps, a[2], a[3]); },
      .compose = torch_norm_rope,
      .reference = norm_rope_reference,
  };
}

inline LayerOperator swiglu_layer() {
  return {
      .name = "swiglu",
      .shapes = {{1},
                 {7},
                 {1, 8},
                 {0, 8},
                 {3, 9},
                 {2, 0, 16},
                 {5, 15},
                 {17, 16},
                 {2, 3, 17},
                 {4, 31},
                 {3, 33},
                 {70, 24},
                 {5, 1, 130}},
      .differentiable = 2,
      .arguments =
          [](const LayerCase& c) {
            return Tensors{random_input(c), random_input(c)};
          },
      .call = [](const Tensors& a) { return kha::ops::swiglu(a[0], a[1]); },
      .compose = [](const Tensors& a) { return at::silu(a[0]) * a[1]; },
      .reference =
          [](const Tensors& a, const at::Tensor& grad) {
            Tensors out = {poisoned(a[0]), poisoned(a[0]), poisoned(a[0])};
            const auto gate = layer_rows(a[0]), up = layer_rows(a[1]);
            reference::swiglu(gate, up, layer_rows(out[0]));
            reference::swiglu_backward(layer_rows(grad), gate, up, layer_rows(out[1]),
                                       layer_rows(out[2]));
            return out;
          },
  };
}

inline std::vector<LayerOperator> all_layers() {
  return {norm_layer(), norm_rope_layer(), swiglu_layer()};
}

inline Tensors widened(const Tensors& tensors) {
  Tensors out;
  for (const auto& t : tensors) out.push_back(t.detach().to(at::kDouble).contiguous());
  return out;
}

// The result and the gradient of every differentiable argument.
inline Tensors run_layer(const LayerOperator& op,
                         const std::function<at::Tensor(const Tensors&)>& function,
                         const Tensors& arguments, const at::Tensor& grad) {
  Tensors leaves;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    leaves.push_back(arguments[i].detach().requires_grad_(i < op.differentiable));
  }
  Tensors out = {function(leaves)};
  out[0].backward(grad);
  for (std::size_t i = 0; i < op.differentiable; ++i) out.push_back(leaves[i].grad());
  return out;
}

}  // namespace kha::test
