// Every map on one small case, three ways: kha's operator, torch's own operators, the reference.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kha/kernels/reference.h"
#include "kha/ops/knock.h"
#include "model/self_test/compare.h"
#include "model/self_test/self_test.h"

namespace kha {
namespace {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

constexpr std::int64_t heads = 2, head_dim = 16, width = 24;  // no two sizes are equal

struct Operator {
  std::string name;
  std::vector<std::vector<std::int64_t>> shapes;  // x, then the matrices in the schema's order
  Function call, compose;
  // The result, then every argument's gradient, in double.
  std::function<Tensors(const Tensors& arguments, const at::Tensor& grad)> reference;
};

Rows<double> rows_of(const at::Tensor& t) {
  return adjacent_rows(t.data_ptr<double>(), t.numel() / t.size(-1), t.size(-1));
}

double* pointer(const at::Tensor& t) { return t.data_ptr<double>(); }

Tensors unwritten(const Tensors& arguments, const at::Tensor& result) {
  Tensors out{at::empty_like(result)};
  for (const auto& argument : arguments) out.push_back(at::empty_like(argument));
  return out;
}

Operator linear_operator() {
  return {"knock_linear",
          {{3, 5, heads, head_dim}, {head_dim, head_dim}},
          [](const Tensors& a) { return ops::knock_linear(a[0], a[1]); },
          [](const Tensors& a) { return at::linear(a[0], a[1]); },
          [](const Tensors& a, const at::Tensor& grad) {
            Tensors out = unwritten(a, grad);
            reference::knock_linear(rows_of(a[0]), pointer(a[1]), rows_of(out[0]));
            reference::knock_linear_backward(rows_of(grad), rows_of(a[0]), pointer(a[1]),
                                             rows_of(out[1]), pointer(out[2]));
            return out;
          }};
}

Operator gate_operator() {
  return {"knock_gate",
          {{3, 5, heads, head_dim}, {head_dim, head_dim}},
          [](const Tensors& a) { return ops::knock_gate(a[0], a[1]); },
          [](const Tensors& a) { return a[0] * (2 * at::sigmoid(at::linear(a[0], a[1]))); },
          [](const Tensors& a, const at::Tensor& grad) {
            Tensors out = unwritten(a, grad);
            reference::knock_gate(rows_of(a[0]), pointer(a[1]), rows_of(out[0]));
            reference::knock_gate_backward(rows_of(grad), rows_of(a[0]), pointer(a[1]),
                                           rows_of(out[1]), pointer(out[2]));
            return out;
          }};
}

Tensors mlp_reference(const Tensors& a, const at::Tensor& grad) {
  Tensors out = unwritten(a, grad);
  const reference::MlpWeights weights{pointer(a[1]), pointer(a[2]), pointer(a[3])};
  std::vector<double> workspace(3 * head_dim);
  reference::knock_mlp(rows_of(a[0]), weights, rows_of(out[0]), workspace.data());
  reference::knock_mlp_backward(rows_of(grad), rows_of(a[0]), weights, rows_of(out[1]),
                                {pointer(out[2]), pointer(out[3]), pointer(out[4])},
                                workspace.data());
  return out;
}

Operator mlp_operator() {
  const std::vector<std::int64_t> square{head_dim, head_dim};
  return {"knock_mlp",
          {{3, 5, heads, head_dim}, square, square, square},
          [](const Tensors& a) { return ops::knock_mlp(a[0], a[1], a[2], a[3]); },
          [](const Tensors& a) {
            return at::linear(at::linear(a[0], a[1]) * (2 * at::sigmoid(at::linear(a[0], a[2]))),
                              a[3]);
          },
          mlp_reference};
}

Tensors projection_reference(const Tensors& a, const at::Tensor& grad) {
  Tensors out = unwritten(a, grad);
  const reference::Projection projection{pointer(a[1]), pointer(a[2]), pointer(a[3]), heads,
                                         head_dim};
  std::vector<double> workspace(heads * head_dim * (2 * width + 1));
  reference::knocked_linear(rows_of(a[0]), projection, rows_of(out[0]), workspace.data());
  reference::knocked_linear_backward(rows_of(grad), rows_of(a[0]), projection, rows_of(out[1]),
                                     {pointer(out[2]), pointer(out[3]), pointer(out[4])},
                                     workspace.data());
  return out;
}

Operator projection_operator() {
  return {
      "knocked_linear",
      {{3, 5, width}, {heads * head_dim, width}, {heads * head_dim}, {head_dim, head_dim}},
      [](const Tensors& a) { return ops::knocked_linear(a[0], a[1], a[2], a[3]); },
      [](const Tensors& a) {
        const at::Tensor weight =
            at::matmul(a[3], a[1].view({heads, head_dim, width})).flatten(0, 1);
        return at::linear(a[0], weight, at::linear(a[2].view({heads, head_dim}), a[3]).flatten());
      },
      projection_reference};
}

Tensors with_gradients(const Function& function, const Tensors& arguments, const at::Tensor& grad) {
  Tensors leaves;
  for (const auto& argument : arguments)
    leaves.push_back(argument.detach().clone().requires_grad_());
  Tensors out{function(leaves)};
  out[0].backward(grad);
  for (const auto& leaf : leaves) out.push_back(leaf.grad());
  return out;
}

// float32 inputs, and the same values in double for the reference.
struct Case {
  Tensors narrow, wide;
  at::Tensor grad_narrow, grad_wide;
};

Case make_case(const Operator& op) {
  Case c;
  const auto add = [](const at::Tensor& value, at::Tensor& narrow, at::Tensor& wide) {
    narrow = value.to(at::kFloat);
    wide = narrow.to(at::kDouble);
  };
  for (std::size_t i = 0; i < op.shapes.size(); ++i) {
    const double scale = i == 0 ? 1.0 : 1 / std::sqrt(static_cast<double>(op.shapes[i].back()));
    add(random_values(op.shapes[i], i + 1) * scale, c.narrow.emplace_back(), c.wide.emplace_back());
  }
  add(random_values(op.call(c.narrow).sizes(), 0), c.grad_narrow, c.grad_wide);
  return c;
}

// A difference of this share of the largest value is no rounding: with it torch itself computes
// wrong.
constexpr double hopeless = 1e-4;

// Against the reference; the limit is twice what torch's own operators are off.
Measured measure(const Operator& op, bool backward) {
  const Case c = make_case(op);
  const Tensors right = op.reference(c.wide, c.grad_wide);
  const Tensors ours = with_gradients(op.call, c.narrow, c.grad_narrow);
  const Tensors torchs = with_gradients(op.compose, c.narrow, c.grad_narrow);
  Measured measured{0, 0};
  for (std::size_t i = backward ? 1 : 0; i < (backward ? right.size() : 1); ++i) {
    const double rounding = 4 * std::numeric_limits<float>::epsilon() * largest_magnitude(right[i]);
    measured.figure = std::max(measured.figure, largest_difference(ours[i], right[i]));
    const double limit = std::min(2 * largest_difference(torchs[i], right[i]) + rounding,
                                  hopeless * largest_magnitude(right[i]));
    measured.limit = std::max(measured.limit, limit);
  }
  return measured;
}

}  // namespace

std::vector<Check> operator_checks() {
  std::vector<Check> checks;
  for (const auto& op :
       {linear_operator(), mlp_operator(), gate_operator(), projection_operator()}) {
    checks.push_back({op.name + " forward", [op] { return measure(op, false); }});
    checks.push_back({op.name + " backward", [op] { return measure(op, true); }});
  }
  return checks;
}

}  // namespace kha
