#include "modules/experts/expert_products.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "modules/experts/expert_groups.h"
#include "modules/experts/grouped_products.h"
#include "modules/experts/matrix_gradient.h"
#include "modules/experts/products_by_path.h"
#include "modules/experts/token_rows.h"
#include "modules/experts/weighted_gate.h"

namespace kha {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [M], of each pair its weight in x's dtype.
Tensor pair_weights(const Tensor& weights, const Assignment& assignment, at::ScalarType type) {
  return weights.flatten().index_select(0, assignment.places_M).to(type);
}

Tensor product_into(Tensor kept, const Tensor& x, const Tensor& matrix) {
  at::mm_out(kept, x, matrix.t());
  return kept;
}

// `kept`: null, or tensors for the products of gate and up for all pairs, to be filled.
Tensor products_by_group(const Tensor& x, const Tensor& weights, const Assignment& assignment,
                         const ExpertMatrices& m, GatedProducts* kept) {
  const Tensor pair_weight = pair_weights(weights, assignment, x.scalar_type());
  TokenSum sum(x);
  for_each_group(assignment, x.is_cpu(), [&](const Group& group) {
    const Tensor tokens = group.of(assignment.tokens_M);
    const Tensor own = x.index_select(0, tokens);
    const Tensor gate_fd = m.gate_Efd.select(0, group.expert);
    const Tensor up_fd = m.up_Efd.select(0, group.expert);
    const Tensor gate =
        kept ? product_into(group.of(kept->gate_Mf), own, gate_fd) : own.mm(gate_fd.t());
    const Tensor up = kept ? product_into(group.of(kept->up_Mf), own, up_fd) : own.mm(up_fd.t());
    const Tensor inner = weighted_swiglu(gate, up, group.of(pair_weight));
    sum.add(group.place, tokens, inner.mm(m.down_Edf.select(0, group.expert).t()));
  });
  return sum.result();
}

Tensor forward_products(const Tensor& x, const Tensor& weights, const Assignment& assignment,
                        const ExpertMatrices& m, ProductPath path, GatedProducts* kept) {
  if (path == ProductPath::grouped) return grouped_forward(x, weights, assignment, m, kept);
  if (kept) {
    const std::vector<int64_t> shape{assignment.pairs(), m.gate_Efd.size(1)};
    *kept = {at::empty(shape, x.options()), at::empty(shape, x.options())};
  }
  return products_by_group(x, weights, assignment, m, kept);
}

class ExpertProducts : public torch::autograd::Function<ExpertProducts> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weights,
                        const Assignment& assignment, const Tensor& gate, const Tensor& up,
                        const Tensor& down, ProductPath path) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    GatedProducts kept;
    const Tensor y =
        forward_products(x.flatten(0, -2), weights, assignment, {gate, up, down}, path, &kept);
    context->save_for_backward({x, weights, gate, up, down, kept.gate_Mf, kept.up_Mf,
                                assignment.tokens_M, assignment.places_M});
    context->saved_data["begin"] = assignment.begin;
    context->saved_data["path"] = static_cast<int64_t>(path);
    return y.view(x.sizes());
  }

  // Inputs are numbered as in forward, where assignment and path take no number of a tensor's.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Assignment assignment{context->saved_data["begin"].toIntVector(), saved[7], saved[8]};
    const auto path = static_cast<ProductPath>(context->saved_data["path"].toInt());
    if (path == ProductPath::grouped) return backward_grouped(saved, assignment, grads[0]);
    Backward work(saved, assignment, grads[0], context);
    for_each_group(assignment, grads[0].is_cpu(), [&](const Group& group) { work.add(group); });
    return work.results();
  }

 private:
  static variable_list backward_grouped(const variable_list& saved, const Assignment& assignment,
                                        const Tensor& grad) {
    const Tensor& x = saved[0];
    const ExpertGradients to =
        grouped_backward(grad.flatten(0, -2), x.flatten(0, -2), saved[1], assignment,
                         {saved[2], saved[3], saved[4]}, {saved[5], saved[6]});
    return {to.dx_Nd.view(x.sizes()), to.dweights_Nk,       {}, to.matrices.gate_Efd,
            to.matrices.up_Efd,       to.matrices.down_Edf, {}};
  }

  class Backward {
   public:
    Backward(const variable_list& saved, const Assignment& assignment, const Tensor& grad,
             AutogradContext* context)
        : shape_(saved[0].sizes().vec()),
          x_(saved[0].flatten(0, -2)),
          matrices_{saved[2], saved[3], saved[4]},
          kept_{saved[5], saved[6]},
          assignment_(assignment),
          grad_(grad.flatten(0, -2)),
          pair_weight_(pair_weights(saved[1], assignment, x_.scalar_type())),
          dx_(x_),
          wants_x_(context->needs_input_grad(0)),
          dgate_(context->needs_input_grad(2), saved[2], assignment),
          dup_(context->needs_input_grad(3), saved[3], assignment),
          ddown_(context->needs_input_grad(4), saved[4], assignment) {
      if (context->needs_input_grad(1)) dweights_ = at::empty_like(saved[1]);
    }

    void add(const Group& group) {
      const Tensor tokens = group.of(assignment_.tokens_M);
      const Tensor dy = grad_.index_select(0, tokens);
      const Tensor dinner = dy.mm(matrices_.down_Edf.select(0, group.expert));
      const auto [inner, dgate, dup, dweights] = weighted_swiglu_backward(
          dinner, group.of(kept_.gate_Mf), group.of(kept_.up_Mf), group.of(pair_weight_));
      if (dweights_.defined()) put_weights(group, dweights);
      if (ddown_.wanted()) ddown_.add(group, dy, inner);
      if (dgate_.wanted() || dup_.wanted()) {
        const Tensor own = x_.index_select(0, tokens);
        if (dgate_.wanted()) dgate_.add(group, dgate, own);
        if (dup_.wanted()) dup_.add(group, dup, own);
      }
      if (!wants_x_) return;
      Tensor dx = dgate.mm(matrices_.gate_Efd.select(0, group.expert));
      dx.addmm_(dup, matrices_.up_Efd.select(0, group.expert));
      dx_.add(group.place, tokens, dx);
    }

    variable_list results() const {
      const Tensor dx = wants_x_ ? dx_.result().view(shape_) : Tensor();
      return {dx, dweights_, {}, dgate_.result(), dup_.result(), ddown_.result(), {}};
    }

   private:
    void put_weights(const Group& group, const Tensor& dweights) {
      dweights_.view({-1}).index_copy_(0, group.of(assignment_.places_M),
                                       dweights.to(dweights_.scalar_type()));
    }

    std::vector<int64_t> shape_;
    Tensor x_;
    ExpertMatrices matrices_;
    GatedProducts kept_;
    const Assignment& assignment_;
    Tensor grad_, pair_weight_;
    TokenSum dx_;
    bool wants_x_;
    Tensor dweights_;
    MatrixGradient dgate_, dup_, ddown_;
  };
};

}  // namespace

Tensor expert_products(const Tensor& x, const Tensor& weights, const Assignment& assignment,
                       const ExpertMatrices& m, ProductPath path) {
  if (at::GradMode::is_enabled()) {
    return ExpertProducts::apply(x, weights, assignment, m.gate_Efd, m.up_Efd, m.down_Edf, path);
  }
  return forward_products(x.flatten(0, -2), weights, assignment, m, path, nullptr).view(x.sizes());
}

Tensor expert_products(const Tensor& x, const Tensor& weights, const Assignment& assignment,
                       const ExpertMatrices& m) {
  const ProductFacts facts{x.device().type(), x.scalar_type(), x.size(-1), m.gate_Efd.size(1)};
  return expert_products(x, weights, assignment, m, choose_product_path(facts));
}

}  // namespace kha
