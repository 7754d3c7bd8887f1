// kha::head_loss and kha::head_loss_with_gradients: the operators around the chunk loop.
#include "kha/ops/head_loss.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/autocast.h"
#include "ops/composition.h"
#include "ops/head_loss_chunks.h"
#include "ops/validate_layers.h"

namespace kha::ops {
namespace {

using at::Tensor;
using WithGradients = std::tuple<Tensor, Tensor, Tensor>;

constexpr const char* name = "kha::head_loss";
constexpr const char* gradients_name = "kha::head_loss_with_gradients";

void check_gradients(const Tensor& scales, const Tensor& hidden, const Tensor& weight,
                     const Tensor& targets) {
  check_head_loss(gradients_name, hidden, weight, targets);
  check_scales(gradients_name, scales, hidden);
}

Tensor losses_chunked(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  check_head_loss(name, hidden, weight, targets);
  check_target_values(name, targets, weight.size(0));
  return head_loss_by_chunks(hidden, weight, targets).losses;
}

WithGradients gradients_chunked(const Tensor& scales, const Tensor& hidden, const Tensor& weight,
                                const Tensor& targets, bool with_weight, double z_loss) {
  check_gradients(scales, hidden, weight, targets);
  check_target_values(gradients_name, targets, weight.size(0));
  const HeadLoss result = head_loss_by_chunks(hidden, weight, targets, scales, with_weight, z_loss);
  return {result.losses, result.dhidden, result.dweight};
}

Tensor losses_shape(const Tensor& hidden) {
  return at::empty_symint({hidden.sym_size(0)}, hidden.options().dtype(loss_dtype(hidden)));
}

Tensor losses_meta(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  check_head_loss(name, hidden, weight, targets);
  return losses_shape(hidden);
}

WithGradients gradients_meta(const Tensor& scales, const Tensor& hidden, const Tensor& weight,
                             const Tensor& targets, bool with_weight, double /*z_loss*/) {
  check_gradients(scales, hidden, weight, targets);
  const Tensor dweight = with_weight ? at::empty_symint(weight.sym_sizes(), weight.options())
                                     : at::empty_symint({0}, weight.options());
  return {losses_shape(hidden), at::empty_symint(hidden.sym_sizes(), hidden.options()), dweight};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden,
                        const Tensor& weight, const Tensor& targets) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor losses = head_loss(hidden, weight, targets);
    context->save_for_backward({hidden, weight, targets});
    return losses;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const bool with_weight = context->needs_input_grad(1);
    const auto [losses, dhidden, dweight] =
        head_loss_with_gradients(grads[0], saved[0], saved[1], saved[2], with_weight);
    return {dhidden, with_weight ? dweight : Tensor(), Tensor()};
  }
};

Tensor losses_autograd(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  return Formula::apply(hidden, weight, targets);
}

template <c10::DeviceType device>
Tensor losses_autocast(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  const Caster<device> cast;
  return head_loss(cast(hidden), cast(weight), targets);
}

}  // namespace

Tensor head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&, const Tensor&)>(name);
  return op.call(hidden, weight, targets);
}

WithGradients head_loss_with_gradients(const Tensor& scales, const Tensor& hidden,
                                       const Tensor& weight, const Tensor& targets,
                                       bool with_weight, double z_loss) {
  static const auto op = find_operator<WithGradients(const Tensor&, const Tensor&, const Tensor&,
                                                     const Tensor&, bool, double)>(gradients_name);
  return op.call(scales, hidden, weight, targets, with_weight, z_loss);
}

namespace {

void register_chunked(torch::Library& library) {
  library.impl("head_loss", TORCH_FN(losses_chunked));
  library.impl("head_loss_with_gradients", TORCH_FN(gradients_chunked));
}

}  // namespace

TORCH_LIBRARY_IMPL(kha, CPU, library) { register_chunked(library); }
TORCH_LIBRARY_IMPL(kha, CUDA, library) { register_chunked(library); }
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("head_loss", TORCH_FN(losses_meta));
  library.impl("head_loss_with_gradients", TORCH_FN(gradients_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("head_loss", TORCH_FN(losses_autograd));
  library.impl("head_loss_with_gradients", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(kha, AutocastCPU, library) {
  library.impl("head_loss", TORCH_FN(losses_autocast<c10::DeviceType::CPU>));
}
TORCH_LIBRARY_IMPL(kha, AutocastCUDA, library) {
  library.impl("head_loss", TORCH_FN(losses_autocast<c10::DeviceType::CUDA>));
}

}  // namespace kha::ops
