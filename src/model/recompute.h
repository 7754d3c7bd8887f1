// Activation checkpointing: a layer keeps its input alone, and runs again in the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace kha {

// none: backward reads what forward kept. layer: each decoder layer is computed a second time.
enum class Recompute { none, layer };

// A function of one tensor and of parameters that it holds; deterministic, no matter when it runs.
using LayerFunction = std::function<at::Tensor(const at::Tensor&)>;

// layer(x), whose backward keeps x and `parameters` (all that the layer reads and that may want a
// gradient) and nothing else: it runs the layer again. Same bits as without on one thread count.
// Where no gradient is recorded it is layer(x). The result must be a fresh tensor.
at::Tensor recompute_in_backward(LayerFunction layer, const at::Tensor& x,
                                 const std::vector<at::Tensor>& parameters);

}  // namespace kha
