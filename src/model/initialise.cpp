#include "model/initialise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <span>

#include "kha/core/checksum.h"
#include "kha/core/parameter_table.h"
#include "model/parameter_layout.h"

namespace kha {

at::Tensor initial_tensor(const ParameterSpec& spec, double standard_deviation, int64_t seed) {
  switch (spec.init) {
    case Init::zeros:
      return at::zeros(spec.shape, at::kFloat);
    case Init::ones:
      return at::ones(spec.shape, at::kFloat);
    case Init::identity:
      return at::eye(spec.shape[0], at::kFloat);
    case Init::blocks:
      return at::eye(spec.shape[0], at::kFloat)
          .repeat_interleave(spec.shape[1] / spec.shape[0], /*dim=*/1);
    case Init::mixing:
      standard_deviation = 0.2;
      break;
    case Init::normal:
      break;
  }
  const std::string key = std::to_string(seed) + "/" + spec.name;
  const at::Generator generator =
      at::detail::createCPUGenerator(xxh3_64(std::as_bytes(std::span(key))));
  return at::empty(spec.shape, at::kFloat).normal_(0.0, standard_deviation, generator);
}

Parameters initialise(const ModelConfig& config, KnockStart start, int64_t seed) {
  return make_parameters(config, start, [&](const ParameterSpec& spec) {
    return initial_tensor(spec, config.initializer_range, seed);
  });
}

}  // namespace kha
