// kha::knock_linear: y = x M^T, one product over all heads and positions.
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

constexpr const char* name = "kha::knock_linear";
constexpr const char* backward_name = "kha::knock_linear_backward";

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  check_knock(backward_name, x, {{"weight", weight}});
  check_gradient(backward_name, grad, x, x.sym_size(-1));
}

Tensor forward_composed(const Tensor& x, const Tensor& weight) {
  check_knock(name, x, {{"weight", weight}});
  return to_rows(x).mm(weight.t()).view(x.sizes());
}

Gradients backward_composed(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  check_backward(grad, x, weight);
  const Tensor grad_rows = to_rows(grad);
  return {grad_rows.mm(weight).view(x.sizes()), grad_rows.t().mm(to_rows(x))};
}

Tensor forward_meta(const Tensor& x, const Tensor& weight) {
  check_knock(name, x, {{"weight", weight}});
  return at::empty_symint(x.sym_sizes(), x.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  check_backward(grad, x, weight);
  return {at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(weight.sym_sizes(), x.options())};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = knock_linear(x, weight);
    context->save_for_backward({x, weight});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto op =
        find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&)>(backward_name);
    const auto saved = context->get_saved_variables();
    const auto [dx, dweight] = op.call(grads[0], saved[0], saved[1]);
    return {dx, dweight};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& weight) { return Formula::apply(x, weight); }

void register_composition(torch::Library& library) {
  library.impl("knock_linear", TORCH_FN(forward_composed));
  library.impl("knock_linear_backward", TORCH_FN(backward_composed));
}

}  // namespace

Tensor knock_linear(const Tensor& x, const Tensor& weight) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&)>(name);
  return op.call(x, weight);
}

TORCH_LIBRARY_IMPL(kha, CPU, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, CUDA, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("knock_linear", TORCH_FN(forward_meta));
  library.impl("knock_linear_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("knock_linear", TORCH_FN(forward_autograd));
  library.impl("knock_linear_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace kha::ops
