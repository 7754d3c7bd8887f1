#include "train/router_step.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

namespace kha {
namespace {

bool is_text(const Batch& batch, size_t position) {
  return batch.segments.empty() || batch.segments[position] >= 0;
}

int64_t text_tokens(const Batch& batch) {
  int64_t count = 0;
  for (size_t i = 0; i < batch.inputs.size(); ++i) count += is_text(batch, i);
  return count;
}

// Undefined where there is no padding.
at::Tensor text_of(const Batch& batch, at::Device device) {
  if (text_tokens(batch) == static_cast<int64_t>(batch.inputs.size())) return {};
  at::Tensor text = at::empty({static_cast<int64_t>(batch.inputs.size())}, at::kBool);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    text.mutable_data_ptr<bool>()[i] = is_text(batch, i);
  }
  return text.to(device);
}

}  // namespace

RouterStep::RouterStep(const ModelConfig& config, const AuxiliaryLosses& losses,
                       const std::vector<Batch>& micro_batches)
    : config_(config),
      losses_(losses),
      counts_first_(config.experts.any() && losses.balance > 0 && micro_batches.size() > 1),
      counts_(config.num_hidden_layers),
      shares_(config.num_hidden_layers) {
  for (const Batch& batch : micro_batches) tokens_ += text_tokens(batch);
  if (!counts_first_) return;
  for (at::Tensor& share : shares_) share = at::zeros({config.experts.count}, at::kDouble);
}

void RouterStep::end_first_round() {
  for (size_t layer = 0; layer < counts_.size(); ++layer) {
    if (!counts_[layer].defined()) continue;
    const auto chosen = counts_[layer].sum().item<int64_t>();
    shares_[layer].copy_(counts_[layer].to(at::kDouble) / std::max<int64_t>(chosen, 1));
  }
}

std::shared_ptr<RouterRecord> RouterStep::record(const Batch& batch, at::Device device) const {
  if (!config_.experts.any()) return {};
  auto record = std::make_shared<RouterRecord>(config_.num_hidden_layers);
  const auto tokens = static_cast<double>(std::max<int64_t>(tokens_, 1));
  record->balance = losses_.balance / tokens;
  record->z = losses_.router_z / tokens;
  record->text_N = text_of(batch, device);
  record->share = shares_;
  return record;
}

void RouterStep::add(const RouterRecord& record) {
  for (size_t layer = 0; layer < counts_.size(); ++layer) {
    const at::Tensor& counts = record.counts[layer];
    if (!counts.defined()) continue;
    counts_[layer] = counts_[layer].defined() ? counts_[layer] + counts : counts;
  }
}

}  // namespace kha
