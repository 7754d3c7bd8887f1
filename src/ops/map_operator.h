// A knock map as an operator of torch, forward and backward: written once for all maps.
//
// A map is a struct with
//   name, backward_name           "kha::knock_mlp" and "kha::knock_mlp_backward"
//   kind                          which of kha's kernels computes it
//   matrices                      the matrices' names in the schema's order
//   compose(x_rows, matrices)                  y of ATen operators, [rows, D]
//   compose_backward(grad_rows, x_rows, matrices)   dx, then one gradient a matrix
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/composition.h"
#include "ops/cpu_knock.h"
#include "ops/validate.h"

namespace kha::ops {

template <class Map, class Indices = std::make_index_sequence<std::size(Map::matrices)>>
class MapOperator;

template <class Map, std::size_t... i>
class MapOperator<Map, std::index_sequence<i...>> {
  using Tensor = at::Tensor;
  template <std::size_t>
  using Matrix = const Tensor&;
  using Matrices = std::array<Tensor, sizeof...(i)>;
  using Gradients = std::tuple<Tensor, std::decay_t<Matrix<i>>...>;

 public:
  static Tensor call(const Tensor& x, Matrix<i>... matrices) {
    static const auto op = find_operator<Tensor(const Tensor&, Matrix<i>...)>(Map::name);
    return op.call(x, matrices...);
  }

  static void register_cpu(torch::Library& library) {
    library.impl(Map::name, TORCH_FN(forward_cpu));
    library.impl(Map::backward_name, TORCH_FN(backward_cpu));
  }
  static void register_cuda(torch::Library& library) {
    library.impl(Map::name, TORCH_FN(forward_composed));
    library.impl(Map::backward_name, TORCH_FN(backward_composed));
  }
  static void register_meta(torch::Library& library) {
    library.impl(Map::name, TORCH_FN(forward_meta));
    library.impl(Map::backward_name, TORCH_FN(backward_meta));
  }
  static void register_autograd(torch::Library& library) {
    library.impl(Map::name, TORCH_FN(forward_autograd));
    library.impl(Map::backward_name, torch::autograd::autogradNotImplementedFallback());
  }

 private:
  static void check(const char* op, const Tensor& x, Matrix<i>... matrices) {
    check_knock(op, x, {Named{Map::matrices[i], matrices}...});
  }
  static void check_backward(const Tensor& grad, const Tensor& x, Matrix<i>... matrices) {
    check(Map::backward_name, x, matrices...);
    check_gradient(Map::backward_name, grad, x, x.sym_size(-1));
  }

  static Tensor forward_composed(const Tensor& x, Matrix<i>... matrices) {
    check(Map::name, x, matrices...);
    return Map::compose(to_rows(x), Matrices{matrices...}).view(x.sizes());
  }
  static Gradients backward_composed(const Tensor& grad, const Tensor& x, Matrix<i>... matrices) {
    check_backward(grad, x, matrices...);
    auto gradients = Map::compose_backward(to_rows(grad), to_rows(x), Matrices{matrices...});
    return {gradients[0].view(x.sizes()), gradients[i + 1]...};
  }

  static Tensor forward_cpu(const Tensor& x, Matrix<i>... matrices) {
    const CpuKernels* kernels = kernels_for(x);
    if (!kernels) return forward_composed(x, matrices...);
    check(Map::name, x, matrices...);
    return knock_forward(*kernels, Map::kind, x, Matrices{matrices...});
  }
  static Gradients backward_cpu(const Tensor& grad, const Tensor& x, Matrix<i>... matrices) {
    const CpuKernels* kernels = kernels_for(x);
    if (!kernels) return backward_composed(grad, x, matrices...);
    check_backward(grad, x, matrices...);
    const auto gradients = knock_backward(*kernels, Map::kind, grad, x, Matrices{matrices...});
    return {gradients[0], gradients[i + 1]...};
  }

  static Tensor forward_meta(const Tensor& x, Matrix<i>... matrices) {
    check(Map::name, x, matrices...);
    return at::empty_symint(x.sym_sizes(), x.options());
  }
  static Gradients backward_meta(const Tensor& grad, const Tensor& x, Matrix<i>... matrices) {
    check_backward(grad, x, matrices...);
    return {at::empty_symint(x.sym_sizes(), x.options()),
            at::empty_symint(matrices.sym_sizes(), x.options())...};
  }

  // Saves x and the matrices, nothing else.
  class Formula : public torch::autograd::Function<Formula> {
   public:
    static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                          Matrix<i>... matrices) {
      at::AutoDispatchBelowADInplaceOrView below_autograd;
      Tensor y = call(x, matrices...);
      context->save_for_backward({x, matrices...});
      return y;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& grads) {
      static const auto op =
          find_operator<Gradients(const Tensor&, const Tensor&, Matrix<i>...)>(Map::backward_name);
      const auto saved = context->get_saved_variables();
      const Gradients all = op.call(grads[0], saved[0], saved[i + 1]...);
      return {std::get<0>(all), std::get<i + 1>(all)...};
    }
  };

  static Tensor forward_autograd(const Tensor& x, Matrix<i>... matrices) {
    if (at::GradMode::is_enabled()) return Formula::apply(x, matrices...);
    // Decoding: a node of the graph that nobody walks costs as much as the map of a few rows.
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call(x, matrices...);
  }
};

}  // namespace kha::ops

// In a map's file: registers it for every dispatch key.
#define KHA_REGISTER_MAP(Map)                                                          \
  TORCH_LIBRARY_IMPL(kha, CPU, library) { MapOperator<Map>::register_cpu(library); }   \
  TORCH_LIBRARY_IMPL(kha, CUDA, library) { MapOperator<Map>::register_cuda(library); } \
  TORCH_LIBRARY_IMPL(kha, Meta, library) { MapOperator<Map>::register_meta(library); } \
  TORCH_LIBRARY_IMPL(kha, Autograd, library) { MapOperator<Map>::register_autograd(library); }
