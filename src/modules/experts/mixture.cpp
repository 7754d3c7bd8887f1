#include "modules/experts/mixture.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

namespace kha {

Mixture::Mixture(const ExpertConfig& config, const Parameters& parameters,
                 const std::string& prefix, int64_t layer, std::shared_ptr<RouterRecord> record)
    : router_(config, parameters, prefix, layer, std::move(record)),
      matrices_{parameters.at(prefix + "experts.gate_proj"),
                parameters.at(prefix + "experts.up_proj"),
                parameters.at(prefix + "experts.down_proj")} {
  if (config.shared > 0) shared_.emplace(parameters, prefix + "shared_experts.");
}

at::Tensor Mixture::operator()(const at::Tensor& x_BTd) const {
  const Routing routing = router_(x_BTd.flatten(0, -2));
  RECORD_USER_SCOPE("kha/experts");
  const Assignment assignment = by_expert(routing.chosen_Nk, matrices_.gate_Efd.size(0));
  const at::Tensor y = expert_products(x_BTd, routing.weights_Nk, assignment, matrices_);
  return shared_ ? (*shared_)(x_BTd).add_(y) : y;
}

}  // namespace kha
