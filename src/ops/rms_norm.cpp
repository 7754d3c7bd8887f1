// kha::rms_norm: y = weight * round(x / rms(x)).
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kha/ops/layers.h"
#include "ops/autocast.h"
#include "ops/composition.h"
#include "ops/cpu_layers.h"
#include "ops/norm_composition.h"
#include "ops/validate_layers.h"

namespace kha::ops {
namespace {

using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor>;

constexpr const char* name = "kha::rms_norm";
constexpr const char* backward_name = "kha::rms_norm_backward";

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps) {
  check_norm(backward_name, x, weight, eps);
  check_gradient(backward_name, grad, x, x.sym_size(-1));
}

Tensor forward_composed(const Tensor& x, const Tensor& weight, double eps) {
  check_norm(name, x, weight, eps);
  return compose_norm(x, weight, eps).contiguous();
}

Gradients backward_composed(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps) {
  check_backward(grad, x, weight, eps);
  return compose_norm_backward(grad, x, weight, eps);
}

Tensor forward_cpu(const Tensor& x, const Tensor& weight, double eps) {
  const CpuKernels* kernels = kernels_for(x);
  if (!kernels) return forward_composed(x, weight, eps);
  check_norm(name, x, weight, eps);
  return norm_forward(*kernels, x.unsqueeze(-2), weight, eps, {}).squeeze(-2);
}

Gradients backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps) {
  const CpuKernels* kernels = kernels_for(x);
  if (!kernels) return backward_composed(grad, x, weight, eps);
  check_backward(grad, x, weight, eps);
  const auto [dx, dweight] =
      norm_backward(*kernels, grad.unsqueeze(-2), x.unsqueeze(-2), weight, eps, {});
  return {dx.squeeze(-2), dweight};
}

Tensor forward_meta(const Tensor& x, const Tensor& weight, double eps) {
  check_norm(name, x, weight, eps);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps) {
  check_backward(grad, x, weight, eps);
  return {at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(weight.sym_sizes(), x.options())};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = rms_norm(x, weight, eps);
    context->save_for_backward({x, weight});
    context->saved_data["eps"] = eps;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto op =
        find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&, double)>(
            backward_name);
    const auto saved = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    const auto [dx, dweight] = op.call(grads[0], saved[0], saved[1], eps);
    return {dx, dweight, Tensor()};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& weight, double eps) {
  return Formula::apply(x, weight, eps);
}

template <c10::DeviceType device>
Tensor forward_autocast(const Tensor& x, const Tensor& weight, double eps) {
  const WithoutAutocast<device> here;
  return rms_norm(x, weight.to(x.scalar_type()), eps);
}

TORCH_LIBRARY_IMPL(kha, CPU, library) {
  library.impl("rms_norm", TORCH_FN(forward_cpu));
  library.impl("rms_norm_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(kha, CUDA, library) {
  library.impl("rms_norm", TORCH_FN(forward_composed));
  library.impl("rms_norm_backward", TORCH_FN(backward_composed));
}
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("rms_norm", TORCH_FN(forward_meta));
  library.impl("rms_norm_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("rms_norm", TORCH_FN(forward_autograd));
  library.impl("rms_norm_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(kha, AutocastCPU, library) {
  library.impl("rms_norm", TORCH_FN(forward_autocast<c10::DeviceType::CPU>));
}
TORCH_LIBRARY_IMPL(kha, AutocastCUDA, library) {
  library.impl("rms_norm", TORCH_FN(forward_autocast<c10::DeviceType::CUDA>));
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&, double)>(name);
  return op.call(x, weight, eps);
}

}  // namespace kha::ops
