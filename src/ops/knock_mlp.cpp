// kha::knock_mlp: y = 2 (x U^T * sigmoid(x G^T)) W^T.
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
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

constexpr const char* name = "kha::knock_mlp";
constexpr const char* backward_name = "kha::knock_mlp_backward";

void check_forward(const char* op, const Tensor& x, const Tensor& up, const Tensor& gate,
                   const Tensor& down) {
  check_knock(op, x, {{"up", up}, {"gate", gate}, {"down", down}});
}

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& up, const Tensor& gate,
                    const Tensor& down) {
  check_forward(backward_name, x, up, gate, down);
  check_gradient(backward_name, grad, x, x.sym_size(-1));
}

Tensor forward_composed(const Tensor& x, const Tensor& up, const Tensor& gate, const Tensor& down) {
  check_forward(name, x, up, gate, down);
  const Tensor x_rows = to_rows(x);
  const Tensor hidden = gate_factor(x_rows, gate).mul_(x_rows.mm(up.t()));
  return hidden.mm(down.t()).view(x.sizes());
}

Gradients backward_composed(const Tensor& grad, const Tensor& x, const Tensor& up,
                            const Tensor& gate, const Tensor& down) {
  check_backward(grad, x, up, gate, down);
  const Tensor x_rows = to_rows(x);
  const Tensor grad_rows = to_rows(grad);
  const Tensor u = x_rows.mm(up.t());
  const Tensor factor = gate_factor(x_rows, gate);
  const Tensor dhidden = grad_rows.mm(down);
  const Tensor dlogit = dhidden.mul(u).mul_(gate_slope(factor));
  const Tensor ddown = grad_rows.t().mm(u.mul_(factor));
  const Tensor du = dhidden.mul_(factor);
  const Tensor dx = du.mm(up).add_(dlogit.mm(gate));
  return {dx.view(x.sizes()), du.t().mm(x_rows), dlogit.t().mm(x_rows), ddown};
}

Tensor forward_meta(const Tensor& x, const Tensor& up, const Tensor& gate, const Tensor& down) {
  check_forward(name, x, up, gate, down);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& x, const Tensor& up, const Tensor& gate,
                        const Tensor& down) {
  check_backward(grad, x, up, gate, down);
  const auto like = [&](const Tensor& t) { return at::empty_symint(t.sym_sizes(), x.options()); };
  return {like(x), like(up), like(gate), like(down)};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& up, const Tensor& gate, const Tensor& down) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = knock_mlp(x, up, gate, down);
    context->save_for_backward({x, up, gate, down});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto op = find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&,
                                                   const Tensor&, const Tensor&)>(backward_name);
    const auto saved = context->get_saved_variables();
    const auto [dx, dup, dgate, ddown] = op.call(grads[0], saved[0], saved[1], saved[2], saved[3]);
    return {dx, dup, dgate, ddown};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& up, const Tensor& gate, const Tensor& down) {
  return Formula::apply(x, up, gate, down);
}

void register_composition(torch::Library& library) {
  library.impl("knock_mlp", TORCH_FN(forward_composed));
  library.impl("knock_mlp_backward", TORCH_FN(backward_composed));
}

}  // namespace

Tensor knock_mlp(const Tensor& x, const Tensor& up, const Tensor& gate, const Tensor& down) {
  static const auto op =
      find_operator<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>(name);
  return op.call(x, up, gate, down);
}

TORCH_LIBRARY_IMPL(kha, CPU, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, CUDA, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("knock_mlp", TORCH_FN(forward_meta));
  library.impl("knock_mlp_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("knock_mlp", TORCH_FN(forward_autograd));
  library.impl("knock_mlp_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace kha::ops
