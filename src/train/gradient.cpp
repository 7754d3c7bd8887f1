#include "train/gradient.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <cstring>

#include "model/decoder.h"

namespace kha {
namespace {

constexpr int64_t not_counted = -100;

std::vector<at::Tensor> gradients_of(
    const std::vector<std::pair<std::string, at::Tensor>>& trainable) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : trainable) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

at::Tensor logits_of(const ModelConfig& config, const Parameters& parameters,
                     const BatchTensors& batch, const Arithmetic& arithmetic) {
  const Decoder decoder(config, parameters.cast(arithmetic.dtype), arithmetic.plan,
                        batch.ids.size(1));
  return decoder.logits(decoder.hidden(batch.ids)).flatten(0, 1).to(at::kFloat);
}

}  // namespace

BatchTensors to_tensors(const Batch& batch, at::Device device) {
  at::Tensor ids = at::empty({batch.rows, batch.context}, at::kLong);
  at::Tensor targets = at::empty_like(ids);
  std::memcpy(ids.mutable_data_ptr(), batch.inputs.data(), ids.nbytes());
  int64_t* target = targets.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    target[i] = batch.counted[i] ? batch.targets[i] : not_counted;
  }
  return {ids.to(device), targets.to(device)};
}

at::Tensor target_losses(const ModelConfig& config, const Parameters& parameters,
                         const BatchTensors& batch, const Arithmetic& arithmetic) {
  return at::cross_entropy_loss(logits_of(config, parameters, batch, arithmetic),
                                batch.targets.flatten(), {}, at::Reduction::None, not_counted);
}

double accumulate_gradient(const ModelConfig& config, const Parameters& parameters,
                           const std::vector<Batch>& micro_batches, const Arithmetic& arithmetic) {
  int64_t counted = 0;
  for (const auto& batch : micro_batches) counted += batch.counted_targets;
  double total = 0;
  for (const auto& batch : micro_batches) {
    const BatchTensors tensors = to_tensors(batch, arithmetic.device);
    const at::Tensor loss =
        at::cross_entropy_loss(logits_of(config, parameters, tensors, arithmetic),
                               tensors.targets.flatten(), {}, at::Reduction::Sum, not_counted) /
        static_cast<double>(std::max<int64_t>(counted, 1));
    loss.backward();
    total += loss.item<double>();
  }
  return total;
}

double gradient_norm(const std::vector<std::pair<std::string, at::Tensor>>& trainable) {
  const at::NoGradGuard no_grad;
  const auto gradients = gradients_of(trainable);
  if (gradients.empty()) return 0;
  return at::stack(at::_foreach_norm(gradients)).norm().item<double>();
}

void clip_gradient(const std::vector<std::pair<std::string, at::Tensor>>& trainable, double norm,
                   double limit) {
  if (norm <= limit) return;
  const at::NoGradGuard no_grad;
  at::_foreach_mul_(gradients_of(trainable), limit / norm);
}

std::string first_bad_gradient(const std::vector<std::pair<std::string, at::Tensor>>& trainable) {
  for (const auto& [name, parameter] : trainable) {
    if (parameter.grad().defined() && !at::isfinite(parameter.grad()).all().item<bool>())
      return name;
  }
  return {};
}

}  // namespace kha
