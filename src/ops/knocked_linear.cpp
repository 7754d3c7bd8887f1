// kha::knocked_linear: the linear map in weight space, y = x W'^T + b' with W'_h = M W_h.
//
// W' is formed again in backward rather than kept: keeping it would cost a second copy of every
// projection for the whole step, forming it costs far less than the projection's own products.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kha/ops/knock.h"
#include "ops/composition.h"
#include "ops/validate.h"

namespace kha::ops {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

constexpr const char* name = "kha::knocked_linear";
constexpr const char* backward_name = "kha::knocked_linear_backward";

void check_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                    const OptionalTensor& bias, const Tensor& map) {
  check_knocked_linear(backward_name, x, weight, bias, map);
  check_gradient(backward_name, grad, x, weight.sym_size(0));
}

// Suffixes: h heads, D head_dim, d model width. [h * D, d] as [h, D, d].
Tensor by_head(const Tensor& weight, const Tensor& map) {
  return weight.reshape({-1, map.size(0), weight.size(-1)});
}

// matrix times every head of weight_hDd, as [h * D, d].
Tensor map_heads(const Tensor& matrix, const Tensor& weight_hDd) {
  const auto heads = weight_hDd.size(0);
  return matrix.expand({heads, -1, -1}).bmm(weight_hDd).flatten(0, 1);
}

OptionalTensor map_bias(const OptionalTensor& bias, const Tensor& map) {
  if (!bias.has_value()) return std::nullopt;
  return bias->reshape({-1, map.size(0)}).mm(map.t()).flatten();
}

Tensor forward_composed(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                        const Tensor& map) {
  check_knocked_linear(name, x, weight, bias, map);
  // at::linear itself, so that with the identity map the bits are those of the plain projection.
  const Tensor mapped = map_heads(map, by_head(weight, map));
  return at::linear(x, mapped, map_bias(bias, map)).contiguous();
}

Gradients backward_composed(const Tensor& grad, const Tensor& x, const Tensor& weight,
                            const OptionalTensor& bias, const Tensor& map) {
  check_backward(grad, x, weight, bias, map);
  const Tensor grad_rows = to_rows(grad);
  const Tensor weight_hDd = by_head(weight, map);
  const Tensor dx = grad_rows.mm(map_heads(map, weight_hDd)).view(x.sizes());
  const Tensor dmapped_hDd = by_head(grad_rows.t().mm(to_rows(x)), map);
  const Tensor dweight = map_heads(map.t(), dmapped_hDd);
  const Tensor dmap = dmapped_hDd.bmm(weight_hDd.transpose(1, 2)).sum(0);
  if (!bias.has_value()) return {dx, dweight, weight.new_empty({0}), dmap};
  const Tensor dmapped_bias_hD = grad_rows.sum(0).reshape({-1, map.size(0)});
  const Tensor bias_hD = bias->reshape({-1, map.size(0)});
  return {dx, dweight, dmapped_bias_hD.mm(map).flatten(), dmap.addmm(dmapped_bias_hD.t(), bias_hD)};
}

Tensor forward_meta(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                    const Tensor& map) {
  check_knocked_linear(name, x, weight, bias, map);
  c10::SymDimVector shape(x.sym_sizes().begin(), x.sym_sizes().end());
  shape.back() = weight.sym_size(0);
  return at::empty_symint(shape, x.options());
}

Gradients backward_meta(const Tensor& grad, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& bias, const Tensor& map) {
  check_backward(grad, x, weight, bias, map);
  const auto like = [&](const Tensor& t) { return at::empty_symint(t.sym_sizes(), x.options()); };
  const Tensor dbias = bias.has_value() ? like(*bias) : at::empty_symint({0}, x.options());
  return {like(x), like(weight), dbias, like(map)};
}

class Formula : public torch::autograd::Function<Formula> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight, const OptionalTensor& bias, const Tensor& map) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor y = knocked_linear(x, weight, bias, map);
    context->save_for_backward({x, weight, bias.value_or(Tensor()), map});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto op =
        find_operator<Gradients(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
                                const Tensor&)>(backward_name);
    const auto saved = context->get_saved_variables();
    const OptionalTensor bias = saved[2].defined() ? OptionalTensor(saved[2]) : std::nullopt;
    const auto [dx, dweight, dbias, dmap] = op.call(grads[0], saved[0], saved[1], bias, saved[3]);
    return {dx, dweight, bias.has_value() ? dbias : Tensor(), dmap};
  }
};

Tensor forward_autograd(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                        const Tensor& map) {
  return Formula::apply(x, weight, bias, map);
}

void register_composition(torch::Library& library) {
  library.impl("knocked_linear", TORCH_FN(forward_composed));
  library.impl("knocked_linear_backward", TORCH_FN(backward_composed));
}

}  // namespace

Tensor knocked_linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                      const Tensor& map) {
  static const auto op =
      find_operator<Tensor(const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&)>(
          name);
  return op.call(x, weight, bias, map);
}

TORCH_LIBRARY_IMPL(kha, CPU, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, CUDA, library) { register_composition(library); }
TORCH_LIBRARY_IMPL(kha, Meta, library) {
  library.impl("knocked_linear", TORCH_FN(forward_meta));
  library.impl("knocked_linear_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(kha, Autograd, library) {
  library.impl("knocked_linear", TORCH_FN(forward_autograd));
  library.impl("knocked_linear_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace kha::ops
