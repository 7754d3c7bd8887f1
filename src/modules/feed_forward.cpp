#include "modules/feed_forward.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kha/ops/layers.h"

namespace kha {
namespace {

// down(silu(gate) * up) that keeps gate and up alone. Autograd would keep the product's left side
// too, as wide as each of them: a sixth of what a layer keeps. Here backward forms it again.
class GatedDown : public torch::autograd::Function<GatedDown> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up, const at::Tensor& down) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({gate, up, down});
    return at::linear(ops::swiglu(gate, up), down);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &down = saved[2];
    at::Tensor ddown;
    if (context->needs_input_grad(2)) {
      const at::Tensor inner = ops::swiglu(gate, up).flatten(0, -2);
      ddown = grads[0].flatten(0, -2).t().mm(inner);
    }
    const auto [dgate, dup] = ops::swiglu_backward(at::matmul(grads[0], down), gate, up);
    return {dgate, dup, ddown};
  }
};

}  // namespace

FeedForward::FeedForward(const Parameters& parameters, const std::string& prefix)
    : gate_(parameters.at(prefix + "gate_proj.weight")),
      up_(parameters.at(prefix + "up_proj.weight")),
      down_(parameters.at(prefix + "down_proj.weight")) {}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  RECORD_USER_SCOPE("kha/feed-forward");
  const at::Tensor gate = at::linear(x, gate_), up = at::linear(x, up_);
  if (at::GradMode::is_enabled()) return GatedDown::apply(gate, up, down_);
  return at::linear(ops::swiglu(gate, up), down_);
}

}  // namespace kha
