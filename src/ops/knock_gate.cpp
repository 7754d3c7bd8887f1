// kha::knock_gate: y = 2 x * sigmoid(x G^T).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kha/ops/knock.h"
#include "ops/composition.h"
#include "ops/validate.h"

namespace kha::ops {
namespace {

using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor>;

constexpr const char* name = "kha::knock_gate";
constexpr const char* backward_name = "kha::knock_gate_backward";

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& gate) {
  check_knock(backward_name, x, {{"gate", gate}});
  check_gradient(backward_name, grad, x, x.sym_size(-1));
}

Tensor forward_composed(const Tensor& x, const Tensor& gate) {
  check_knock(name, x, {{"gate", gate}});
  const Tensor x_rows = to_rows(x);
  return gate_factor(x_rows, gate).mul_(x_rows).view(x.sizes());
}

Gradients backward_composed(const Tensor& grad, const Tensor& x, const Tensor& gate) {
  check_backward(grad, x, gate);
  const Tensor x_rows = to_rows(x);
  const Tensor grad_rows = to_rows(grad);
  const Tensor factor = gate_factor(x_rows, gate);
  const Tensor dlogit = grad_rows.mul(x_rows).mul_(gate_slope(factor));
  const Tensor dx = dlogit.mm(gate).add_(grad_rows.mul(factor));
  return {dx.view(x.sizes()), dlogit.t().mm(x_rows)};
}

Tensor forward_meta(const Tensor& x, const Tensor& gate) {
  check_knock(name, x, {{"gate", gate}});
  return at::empty_symint(x.sym_sizes(), x.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& x, const Tensor& gate) {
  check_backward(grad, x, gate);
  return {at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(gate.sym_sizes(), x.options())};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& gate) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = knock_gate(x, gate);
    context->save_for_backward({x, gate});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto op =
        find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&)>(backward_name);
    const auto saved = context->get_saved_variables();
    const auto [dx, dgate] = op.call(grads[0], saved[0], saved[1]);
    return {dx, dgate};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& gate) { return Formula::apply(x, gate); }

void register_composition(torch::Library& library) {
  library.impl("knock_gate", TORCH_FN(forward_composed));
  library.impl("knock_gate_backward", TORCH_FN(backward_composed));
}

}  // namespace

Tensor knock_gate(const Tensor& x, const Tensor& gate) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&)>(name);
  return op.call(x, gate);
}

TORCH_LIBRARY_IMPL(kha, CPU, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, CUDA, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("knock_gate", TORCH_FN(forward_meta));
  library.impl("knock_gate_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("knock_gate", TORCH_FN(forward_autograd));
  library.impl("knock_gate_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace kha::ops
