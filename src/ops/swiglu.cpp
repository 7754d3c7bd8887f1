// kha::swiglu: y = silu(gate) * up.
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kha/ops/layers.h"
#include "ops/autocast.h"
#include "ops/composition.h"
#include "ops/cpu_layers.h"
#include "ops/validate_layers.h"

namespace kha::ops {
namespace {

using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor>;

constexpr const char* name = "kha::swiglu";
constexpr const char* backward_name = "kha::swiglu_backward";

void check_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  check_swiglu(backward_name, gate, up);
  check_same_shape(backward_name, {"grad", grad}, {"gate", gate});
}

Tensor forward_composed(const Tensor& gate, const Tensor& up) {
  check_swiglu(name, gate, up);
  return (at::silu(gate) * up).contiguous();
}

Gradients backward_composed(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  check_backward(grad, gate, up);
  const Tensor dgate = at::silu_backward(grad * up, gate).contiguous();
  return {dgate, (grad * at::silu(gate)).contiguous()};
}

Tensor forward_cpu(const Tensor& gate, const Tensor& up) {
  const CpuKernels* kernels = kernels_for(gate);
  if (!kernels) return forward_composed(gate, up);
  check_swiglu(name, gate, up);
  return swiglu_forward(*kernels, gate.unsqueeze(-2), up.unsqueeze(-2)).squeeze(-2);
}

Gradients backward_cpu(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  const CpuKernels* kernels = kernels_for(gate);
  if (!kernels) return backward_composed(grad, gate, up);
  check_backward(grad, gate, up);
  const auto [dgate, dup] =
      swiglu_backward(*kernels, grad.unsqueeze(-2), gate.unsqueeze(-2), up.unsqueeze(-2));
  return {dgate.squeeze(-2), dup.squeeze(-2)};
}

Tensor forward_meta(const Tensor& gate, const Tensor& up) {
  check_swiglu(name, gate, up);
  return at::empty_symint(gate.sym_sizes(), gate.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  check_backward(grad, gate, up);
  return {at::empty_symint(gate.sym_sizes(), gate.options()),
          at::empty_symint(up.sym_sizes(), gate.options())};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate,
                        const Tensor& up) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = swiglu(gate, up);
    context->save_for_backward({gate, up});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto [dgate, dup] = swiglu_backward(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

Tensor forward_autograd(const Tensor& gate, const Tensor& up) { return Formula::apply(gate, up); }

template <c10::DeviceType device>
Tensor forward_autocast(const Tensor& gate, const Tensor& up) {
  const Caster<device> cast;
  return swiglu(cast(gate), cast(up));
}

TORCH_LIBRARY_IMPL(kha, CPU, library) {
  library.impl("swiglu", TORCH_FN(forward_cpu));
  library.impl("swiglu_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(kha, CUDA, library) {
  library.impl("swiglu", TORCH_FN(forward_composed));
  library.impl("swiglu_backward", TORCH_FN(backward_composed));
}
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("swiglu", TORCH_FN(forward_meta));
  library.impl("swiglu_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("swiglu", TORCH_FN(forward_autograd));
  library.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(kha, AutocastCPU, library) {
  library.impl("swiglu", TORCH_FN(forward_autocast<c10::DeviceType::CPU>));
}
TORCH_LIBRARY_IMPL(kha, AutocastCUDA, library) {
  library.impl("swiglu", TORCH_FN(forward_autocast<c10::DeviceType::CUDA>));
}

}  // namespace

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  static const auto op =
      find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&)>(backward_name);
  return op.call(grad, gate, up);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&)>(name);
  return op.call(gate, up);
}

}  // namespace kha::ops
