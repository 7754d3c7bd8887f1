#include "modules/fused_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cpu_attention.h"

namespace kha {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

ops::Attended forward_pass(const CpuKernels& kernels, const ops::AttentionInputs& inputs) {
  RECORD_FUNCTION("kha::causal_attention", std::vector<c10::IValue>());
  return ops::attention_forward(kernels, inputs);
}

// The choice may be another by the time of the backward pass.
constexpr const char* of_set = "set";

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& queries, const Tensor& keys,
                        const Tensor& values, const CpuKernels* kernels) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, sums] = forward_pass(*kernels, {queries, keys, values});
    context->save_for_backward({queries, keys, values, y, sums});
    context->saved_data[of_set] = static_cast<int64_t>(kernels->set);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !at::GradMode::is_enabled(),
        "kha's causal attention: second derivatives are not implemented, and create_graph=True"
        " asks for them; call ops::set_cpu_implementation(\"aten\") before the forward pass to"
        " compose torch's operators");
    RECORD_FUNCTION("kha::causal_attention_backward", std::vector<c10::IValue>());
    const auto saved = context->get_saved_variables();
    const auto set = static_cast<InstructionSet>(context->saved_data[of_set].toInt());
    const auto [dq, dk, dv] = ops::attention_backward(
        cpu_kernels(set), grads[0], {saved[0], saved[1], saved[2]}, {saved[3], saved[4]});
    return {dq, dk, dv, Tensor()};
  }
};

}  // namespace

std::optional<Tensor> fused_attention(const Tensor& queries, const Tensor& keys,
                                      const Tensor& values) {
  const CpuKernels* kernels = ops::kernels_for(queries);
  if (!kernels || !ops::kernels_for(keys) || !ops::kernels_for(values)) return std::nullopt;
  if (at::GradMode::is_enabled()) return CausalAttention::apply(queries, keys, values, kernels);
  return forward_pass(*kernels, {queries, keys, values}).y_BTHD;
}

}  // namespace kha
