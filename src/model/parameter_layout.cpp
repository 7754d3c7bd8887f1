#include "model/parameter_layout.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace kha {
namespace {

// "model.layers.3.mlp.experts.7.up_proj.weight" -> "model.layers.3.mlp.experts.up_proj"
std::string memory_name(const ParameterSpec& spec) {
  if (spec.expert < 0) return spec.name;
  const std::string prefix = feed_forward_prefix(spec.layer) + "experts.";
  const size_t matrix = spec.name.find('.', prefix.size()) + 1;
  return prefix + spec.name.substr(matrix, spec.name.rfind('.') - matrix);
}

}  // namespace

std::vector<ParameterSpec> memory_table(const ModelConfig& config, KnockStart start) {
  std::vector<ParameterSpec> table;
  for (ParameterSpec spec : parameter_table(config, start)) {
    if (spec.expert > 0) continue;
    if (spec.expert == 0) {
      spec.name = memory_name(spec);
      spec.shape.insert(spec.shape.begin(), config.experts.count);
      spec.expert = -1;
    }
    table.push_back(std::move(spec));
  }
  return table;
}

Parameters make_parameters(const ModelConfig& config, KnockStart start,
                           const std::function<at::Tensor(const ParameterSpec&)>& value) {
  const at::NoGradGuard no_grad;
  Parameters parameters;
  for (const auto& spec : parameter_table(config, start)) {
    if (spec.expert < 0) {
      parameters.add(spec.name, value(spec));
      continue;
    }
    if (spec.expert == 0) {
      std::vector<int64_t> shape = spec.shape;
      shape.insert(shape.begin(), config.experts.count);
      parameters.add(memory_name(spec), at::empty(shape, at::kFloat));
    }
    stored_tensor(parameters, spec).copy_(value(spec));
  }
  return parameters;
}

at::Tensor stored_tensor(const Parameters& parameters, const ParameterSpec& spec) {
  const at::Tensor& tensor = parameters.at(memory_name(spec));
  return spec.expert < 0 ? tensor : tensor.select(0, spec.expert);
}

std::vector<std::pair<std::string, at::Tensor>> stored_tensors(const ModelConfig& config,
                                                               const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& spec : parameter_table(config)) {
    tensors.emplace_back(spec.name, stored_tensor(parameters, spec));
  }
  return tensors;
}

}  // namespace kha
