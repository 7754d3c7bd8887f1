// The loss of one optimiser step and its gradient, over all of its micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kha/core/batch.h"
#include "kha/core/model_config.h"
#include "kha/ops/knock_plan.h"
#include "model/recompute.h"
#include "modules/packed_layout.h"
#include "modules/parameters.h"
#include "train/router_step.h"

namespace kha {

// How a row that holds several documents is read.
struct Packing {
  bool document_mask = false;    // a token sees its own document only
  bool reset_positions = false;  // each document begins at position 0
};

struct Arithmetic {
  at::ScalarType dtype = at::kFloat;  // of the layers; master weights stay float32
  at::Device device = at::kCPU;
  KnockPlan plan = KnockPlan::weight_space;
  Recompute recompute = Recompute::none;  // costs time for memory, changes no bit
};

// ids and targets [rows, context] int64 on `device`; targets that do not count are -100. `layout`
// is null where the rows are plain texts from position 0.
struct BatchTensors {
  at::Tensor ids, targets;
  std::shared_ptr<const PackedLayout> layout = {};
};
BatchTensors to_tensors(const Batch& batch, const Packing& packing, at::Device device);

// Negative log-likelihood of each target in nats, [rows * context] float32, 0 where none counts.
// A record takes the load of the experts.
at::Tensor target_losses(const ModelConfig& config, const Parameters& parameters,
                         const BatchTensors& batch, const Arithmetic& arithmetic,
                         std::shared_ptr<RouterRecord> record = nullptr);

// Adds the gradient of (sum of all counted targets' losses) / (their number) to the parameters'
// grad, one micro-batch after the other, so that cutting a batch changes nothing but rounding.
// Returns the mean loss in nats, without the auxiliary losses, whose gradients are added too; with
// a balance loss and several micro-batches every pass forward but the first micro-batch's is made
// twice. `counts` takes the load of the experts.
double accumulate_gradient(const ModelConfig& config, const Parameters& parameters,
                           const std::vector<Batch>& micro_batches, const Packing& packing,
                           const Arithmetic& arithmetic, const AuxiliaryLosses& losses = {},
                           ExpertCounts* counts = nullptr);

// The Euclidean norm over all gradients.
double gradient_norm(const std::vector<std::pair<std::string, at::Tensor>>& trainable);
// Scales all gradients so that the norm is at most `limit`.
void clip_gradient(const std::vector<std::pair<std::string, at::Tensor>>& trainable, double norm,
                   double limit);
// The first parameter with a gradient that is not finite, or an empty text.
std::string first_bad_gradient(const std::vector<std::pair<std::string, at::Tensor>>& trainable);

}  // namespace kha
