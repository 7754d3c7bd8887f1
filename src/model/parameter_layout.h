// How the tensors of a checkpoint lie in memory: the routed experts of a layer stand in one tensor
// a matrix, [E, out, in], everything else as it is stored.
//
// One tensor is one parameter of the optimiser, one gradient and one piece of memory for the
// products; a file holds each expert for itself, as every reader expects.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kha/core/parameter_table.h"
#include "modules/parameters.h"

namespace kha {

// parameter_table with one entry for all routed experts' matrices of a kind:
// "model.layers.3.mlp.experts.up_proj", [E, f, d].
std::vector<ParameterSpec> memory_table(const ModelConfig& config,
                                        KnockStart start = KnockStart::identity);

// float32 tensors on the CPU, each part of them filled with what `value` gives for an entry of
// parameter_table.
Parameters make_parameters(const ModelConfig& config, KnockStart start,
                           const std::function<at::Tensor(const ParameterSpec&)>& value);

// The tensor of a checkpoint, a view of where it lies.
at::Tensor stored_tensor(const Parameters& parameters, const ParameterSpec& spec);

// All of them by name, in the order of parameter_table.
std::vector<std::pair<std::string, at::Tensor>> stored_tensors(const ModelConfig& config,
                                                               const Parameters& parameters);

}  // namespace kha
