#include "model/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <utility>

namespace kha {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Its inputs are x, then the parameters.
class LayerBackward : public torch::autograd::Node {
 public:
  LayerBackward(LayerFunction layer, const variable_list& inputs)
      : torch::autograd::Node(torch::autograd::collect_next_edges(inputs)),
        layer_(std::move(layer)) {
    for (const at::Tensor& input : inputs) saved_.emplace_back(input, /*is_output=*/false);
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list inputs;
    for (const SavedVariable& saved : saved_) inputs.push_back(saved.unpack());
    const at::AutoGradMode records(true);
    inputs[0] = inputs[0].detach().requires_grad_(task_should_compute_output(0));
    const at::Tensor y = layer_(inputs[0]);
    variable_list wanted;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (task_should_compute_output(i)) wanted.push_back(inputs[i]);
    }
    variable_list found = torch::autograd::grad({y}, wanted, gradients, /*retain_graph=*/false,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    variable_list results(inputs.size());
    for (size_t i = inputs.size(); i-- > 0;) {
      if (!task_should_compute_output(i)) continue;
      results[i] = std::move(found.back());
      found.pop_back();
    }
    return results;
  }

  void release_variables() override {
    for (SavedVariable& saved : saved_) saved.reset_data();
    layer_ = {};
  }

 private:
  LayerFunction layer_;
  std::vector<SavedVariable> saved_;
};

// torch 2.11 counts the owners of a node with std::shared_ptr, 2.15 inside the node. deleteNode is
// found beside Node where there is one: it keeps a deep graph from being freed by recursion.
template <class Pointer, class Made, class... Arguments>
Pointer make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(new Made(std::forward<Arguments>(arguments)...),
                   [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Made>(std::forward<Arguments>(arguments)...);
  }
}

using NodePointer = decltype(torch::autograd::Edge::function);

}  // namespace

at::Tensor recompute_in_backward(LayerFunction layer, const at::Tensor& x,
                                 const std::vector<at::Tensor>& parameters) {
  variable_list inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (!torch::autograd::compute_requires_grad(inputs)) return layer(x);
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    y = layer(x);
  }
  torch::autograd::set_history(y, make_node<NodePointer, LayerBackward>(std::move(layer), inputs));
  return y;
}

}  // namespace kha
