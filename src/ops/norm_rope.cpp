// kha::norm_rope: RMSNorm over the head dimension, then the rotary embedding.
#include <ATen/ops/cat.h>
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

constexpr const char* name = "kha::norm_rope";
constexpr const char* backward_name = "kha::norm_rope_backward";

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps,
                    const Tensor& cos, const Tensor& sin) {
  check_norm_rope(backward_name, x, weight, eps, cos, sin);
  check_gradient(backward_name, grad, x, x.sym_size(-1));
}

// [T, D] -> [T, 1, D], one row for all heads.
Tensor by_head(const Tensor& table) { return table.unsqueeze(1); }

// (-n[D/2:], n[:D/2]), and its transpose.
Tensor swap_halves(const Tensor& n, bool transposed) {
  const int64_t half = n.size(-1) / 2;
  const Tensor low = n.narrow(-1, 0, half), high = n.narrow(-1, half, half);
  return transposed ? at::cat({high, -low}, -1) : at::cat({-high, low}, -1);
}

Tensor forward_composed(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos,
                        const Tensor& sin) {
  check_norm_rope(name, x, weight, eps, cos, sin);
  const Tensor n = compose_norm(x, weight, eps);
  return (n * by_head(cos) + swap_halves(n, false) * by_head(sin)).contiguous();
}

Gradients backward_composed(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps,
                            const Tensor& cos, const Tensor& sin) {
  check_backward(grad, x, weight, eps, cos, sin);
  const Tensor dn = grad * by_head(cos) + swap_halves(grad * by_head(sin), true);
  return compose_norm_backward(dn, x, weight, eps);
}

Tensor forward_cpu(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos,
                   const Tensor& sin) {
  const CpuKernels* kernels = kernels_for(x);
  if (!kernels) return forward_composed(x, weight, eps, cos, sin);
  check_norm_rope(name, x, weight, eps, cos, sin);
  return norm_forward(*kernels, x, weight, eps, {cos, sin});
}

Gradients backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps,
                       const Tensor& cos, const Tensor& sin) {
  const CpuKernels* kernels = kernels_for(x);
  if (!kernels) return backward_composed(grad, x, weight, eps, cos, sin);
  check_backward(grad, x, weight, eps, cos, sin);
  return norm_backward(*kernels, grad, x, weight, eps, {cos, sin});
}

Tensor forward_meta(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos,
                    const Tensor& sin) {
  check_norm_rope(name, x, weight, eps, cos, sin);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& x, const Tensor& weight, double eps,
                        const Tensor& cos, const Tensor& sin) {
  check_backward(grad, x, weight, eps, cos, sin);
  return {at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(weight.sym_sizes(), x.options())};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight, double eps, const Tensor& cos, const Tensor& sin) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = norm_rope(x, weight, eps, cos, sin);
    context->save_for_backward({x, weight, cos, sin});
    context->saved_data["eps"] = eps;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto op =
        find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&,
                                const Tensor&)>(backward_name);
    const auto saved = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    const auto [dx, dweight] = op.call(grads[0], saved[0], saved[1], eps, saved[2], saved[3]);
    return {dx, dweight, Tensor(), Tensor(), Tensor()};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos,
                        const Tensor& sin) {
  check_constant(name, {"cos", cos});
  check_constant(name, {"sin", sin});
  return Formula::apply(x, weight, eps, cos, sin);
}

template <c10::DeviceType device>
Tensor forward_autocast(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos,
                        const Tensor& sin) {
  const WithoutAutocast<device> here;
  const auto type = x.scalar_type();
  return norm_rope(x, weight.to(type), eps, cos.to(type), sin.to(type));
}

TORCH_LIBRARY_IMPL(kha, CPU, library) {
  library.impl("norm_rope", TORCH_FN(forward_cpu));
  library.impl("norm_rope_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(kha, CUDA, library) {
  library.impl("norm_rope", TORCH_FN(forward_composed));
  library.impl("norm_rope_backward", TORCH_FN(backward_composed));
}
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("norm_rope", TORCH_FN(forward_meta));
  library.impl("norm_rope_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("norm_rope", TORCH_FN(forward_autograd));
  library.impl("norm_rope_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(kha, AutocastCPU, library) {
  library.impl("norm_rope", TORCH_FN(forward_autocast<c10::DeviceType::CPU>));
}
TORCH_LIBRARY_IMPL(kha, AutocastCUDA, library) {
  library.impl("norm_rope", TORCH_FN(forward_autocast<c10::DeviceType::CUDA>));
}

}  // namespace

Tensor norm_rope(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos,
                 const Tensor& sin) {
  static const auto op =
      find_operator<Tensor(const Tensor&, const Tensor&, double, const Tensor&, const Tensor&)>(
          name);
  return op.call(x, weight, eps, cos, sin);
}

}  // namespace kha::ops
