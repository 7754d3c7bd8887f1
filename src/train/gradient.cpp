#include "train/gradient.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstring>

#include "kha/ops/head_loss.h"
#include "model/decoder.h"
#include "ops/cpu_sums.h"

namespace kha {
namespace {

std::vector<at::Tensor> gradients_of(
    const std::vector<std::pair<std::string, at::Tensor>>& trainable) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : trainable) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

// The decoder over one micro-batch, up to the head.
struct Pass {
  at::Tensor hidden_Nd, head_Vd;
};

Pass run_layers(const ModelConfig& config, const Parameters& parameters, const BatchTensors& batch,
                const Arithmetic& arithmetic, std::shared_ptr<RouterRecord> record = nullptr) {
  const Decoder decoder(config, parameters.cast(arithmetic.dtype), arithmetic.plan,
                        batch.ids.size(1), arithmetic.recompute, std::move(record));
  return {decoder.hidden(batch.ids, nullptr, batch.layout).flatten(0, 1), decoder.head()};
}

// What autograd would do at the end of the head, without its copy: a leaf takes the gradient as it
// is, so that only one gradient of the vocabulary's size is alive.
void add_to_leaf(const at::Tensor& leaf, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  at::Tensor& own = at::Tensor(leaf).mutable_grad();
  if (own.defined()) {
    own.add_(gradient);
  } else {
    own = gradient;
  }
}

// Sum of the losses times `scale`; its gradient goes to the parameters, with that of the z-loss.
double backward(const Pass& pass, const at::Tensor& targets_N, double scale, double z_loss) {
  const bool wants_head = pass.head_Vd.requires_grad();
  const auto type = pass.hidden_Nd.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor scales =
      at::full(targets_N.sizes(), scale, pass.hidden_Nd.options().dtype(type).requires_grad(false));
  auto [losses, dhidden, dhead] = ops::head_loss_with_gradients(
      scales, pass.hidden_Nd.detach(), pass.head_Vd.detach(), targets_N, wants_head, z_loss);
  std::vector<at::Tensor> roots, gradients;
  const auto start = [&](const at::Tensor& root, const at::Tensor& gradient) {
    if (!root.requires_grad()) return;
    if (root.is_leaf()) return add_to_leaf(root, gradient);
    roots.push_back(root);
    gradients.push_back(gradient);
  };
  start(pass.hidden_Nd, dhidden);
  start(pass.head_Vd, dhead);
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  return losses.sum(at::kDouble).item<double>() * scale;
}

// Lengths of the stretches of equal numbers, row by row.
std::vector<int64_t> stretches(const Batch& batch) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < batch.segments.size(); ++i) {
    const bool begins =
        i % static_cast<size_t>(batch.context) == 0 || batch.segments[i] != batch.segments[i - 1];
    if (begins) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

std::shared_ptr<const PackedLayout> layout_of(const Batch& batch, const Packing& packing,
                                              at::Device device) {
  if (!packing.document_mask && !packing.reset_positions) return {};
  PackedLayout layout;
  if (packing.document_mask) layout.lengths = stretches(batch);
  if (packing.reset_positions) layout.positions_N = at::tensor(batch.positions).to(device);
  return std::make_shared<const PackedLayout>(std::move(layout));
}

// Null where torch's operators are to be composed.
const CpuKernels* kernels_for_all(const std::vector<at::Tensor>& tensors) {
  const CpuKernels* kernels = nullptr;
  for (const at::Tensor& x : tensors) {
    kernels = ops::kernels_for(x);
    if (!kernels) return nullptr;
  }
  return kernels;
}

}  // namespace

BatchTensors to_tensors(const Batch& batch, const Packing& packing, at::Device device) {
  at::Tensor ids = at::empty({batch.rows, batch.context}, at::kLong);
  at::Tensor targets = at::empty_like(ids);
  std::memcpy(ids.mutable_data_ptr(), batch.inputs.data(), ids.nbytes());
  int64_t* target = targets.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    target[i] = batch.counted[i] ? batch.targets[i] : ops::not_counted;
  }
  return {ids.to(device), targets.to(device), layout_of(batch, packing, device)};
}

at::Tensor target_losses(const ModelConfig& config, const Parameters& parameters,
                         const BatchTensors& batch, const Arithmetic& arithmetic,
                         std::shared_ptr<RouterRecord> record) {
  const Pass pass = run_layers(config, parameters, batch, arithmetic, std::move(record));
  return ops::head_loss(pass.hidden_Nd, pass.head_Vd, batch.targets.flatten()).to(at::kFloat);
}

double accumulate_gradient(const ModelConfig& config, const Parameters& parameters,
                           const std::vector<Batch>& micro_batches, const Packing& packing,
                           const Arithmetic& arithmetic, const AuxiliaryLosses& losses,
                           ExpertCounts* counts) {
  RouterStep routers(config, losses, micro_batches);
  int64_t counted = 0;
  for (const auto& batch : micro_batches) counted += batch.counted_targets;
  const double scale = 1 / static_cast<double>(std::max<int64_t>(counted, 1));
  double total = 0;
  size_t uncounted = micro_batches.size();
  const auto run = [&](const Batch& batch, const BatchTensors& tensors) {
    const auto record = routers.record(batch, arithmetic.device);
    Pass pass = run_layers(config, parameters, tensors, arithmetic, record);
    if (!record || uncounted == 0) return pass;
    routers.add(*record);
    if (--uncounted == 0 && routers.counts_first()) routers.end_first_round();
    return pass;
  };
  const auto count = [&](const Batch& batch) {
    const at::NoGradGuard no_grad;
    run(batch, to_tensors(batch, packing, arithmetic.device));
  };
  // What is counted last is the first to be learnt from, on one and the same pass.
  for (size_t i = 1; i < micro_batches.size() && routers.counts_first(); ++i) {
    count(micro_batches[i]);
  }
  for (const auto& batch : micro_batches) {
    const BatchTensors tensors = to_tensors(batch, packing, arithmetic.device);
    total += backward(run(batch, tensors), tensors.targets.flatten(), scale, losses.output_z);
  }
  if (counts) *counts = routers.counts();
  return total;
}

double gradient_norm(const std::vector<std::pair<std::string, at::Tensor>>& trainable) {
  const at::NoGradGuard no_grad;
  const auto gradients = gradients_of(trainable);
  if (gradients.empty()) return 0;
  const CpuKernels* const kernels = kernels_for_all(gradients);
  if (kernels) {
    double sum = 0;
    for (const at::Tensor& gradient : gradients) sum += ops::square_sum(*kernels, gradient);
    return std::sqrt(sum);
  }
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
