#include "train/evaluate.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kha/core/error.h"
#include "kha/ops/head_loss.h"
#include "model/decoder.h"
#include "train/router_step.h"

namespace kha {
namespace {

void add_batch(const Batch& batch, const at::Tensor& losses, const Tokenizer& tokenizer,
               Evaluation& evaluation) {
  const at::Tensor on_cpu = losses.cpu();
  const float* loss = on_cpu.const_data_ptr<float>();
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    if (!batch.counted[i]) continue;
    evaluation.nats += loss[i];
    evaluation.targets += 1;
    evaluation.bytes += tokenizer.bytes_of(batch.targets[i]);
    DocumentLoss& document = evaluation.documents[batch.documents[i]];
    document.nats += loss[i];
    document.targets += 1;
  }
}

}  // namespace

namespace {

void add_loads(ExpertCounts& sum, const ExpertCounts& part) {
  if (sum.empty()) sum.resize(part.size());
  for (size_t layer = 0; layer < part.size(); ++layer) {
    if (!part[layer].defined()) continue;
    sum[layer] = sum[layer].defined() ? sum[layer] + part[layer] : part[layer];
  }
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss()); }

double Evaluation::bits_per_byte() const {
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

void add(Evaluation& sum, const Evaluation& part, int64_t first_document) {
  sum.nats += part.nats;
  sum.targets += part.targets;
  sum.bytes += part.bytes;
  for (const auto& [document, loss] : part.documents) {
    sum.documents[first_document + document] = loss;
  }
  add_loads(sum.loads, part.loads);
}

namespace {

// The losses of a batch's targets, [rows * context] float32.
using LossesOf = std::function<at::Tensor(const Batch&, const BatchTensors&)>;

Evaluation evaluate_windows(const TokenShard& shard, const Tokenizer& tokenizer,
                            const EvaluationPlan& plan, at::Device device,
                            const LossesOf& losses_of,
                            const std::function<void(int64_t, int64_t)>& progress) {
  const at::NoGradGuard no_grad;
  const auto windows = evaluation_windows(shard.tokens(), plan.context, plan.max_tokens);
  const auto count = static_cast<int64_t>(windows.size());
  Evaluation evaluation;
  Batch batch;
  for (int64_t begin = 0; begin < count; begin += plan.rows) {
    const int64_t rows = std::min(plan.rows, count - begin);
    fill_batch(shard, std::span(windows).subspan(begin, rows), plan.context, plan.boundary, batch);
    add_batch(batch, losses_of(batch, to_tensors(batch, plan.packing, device)), tokenizer,
              evaluation);
    if (progress) progress(begin + rows, count);
  }
  if (evaluation.targets == 0) {
    fail({.what = "there is nothing to evaluate",
          .where = shard.path().string(),
          .expected = "at least two tokens",
          .found = std::to_string(shard.tokens())});
  }
  return evaluation;
}

// [rows * context] float32, from hidden states that come in stretches.
at::Tensor losses_through_cache(const ModelConfig& config, const Parameters& parameters,
                                const BatchTensors& batch, const Arithmetic& arithmetic,
                                const CachePlan& plan) {
  const int64_t length = batch.ids.size(1);
  const Decoder decoder(config, parameters.cast(arithmetic.dtype), arithmetic.plan, length);
  KvCache cache(config, batch.ids.size(0), length, arithmetic.dtype, arithmetic.device, plan.kind);
  std::vector<at::Tensor> hidden;
  while (cache.length() < length) {
    const int64_t next = std::min(plan.stretch, length - cache.length());
    hidden.push_back(decoder.hidden(batch.ids.narrow(1, cache.length(), next), &cache));
  }
  return ops::head_loss(at::cat(hidden, 1).flatten(0, 1), decoder.head(), batch.targets.flatten())
      .to(at::kFloat);
}

void check(const CachePlan& cache, const Packing& packing) {
  if (packing.document_mask || packing.reset_positions) {
    fail({.what = "a window with several documents cannot be decoded through a KV cache",
          .cause = "cached positions are one text",
          .next = "leave out --document-mask and --reset-positions"});
  }
  if (cache.stretch >= 1) return;
  fail({.what = "a text cannot be decoded in such stretches",
        .where = "--stretch",
        .expected = "1 or more tokens at once",
        .found = std::to_string(cache.stretch)});
}

}  // namespace

Evaluation evaluate(const ModelConfig& config, const Parameters& parameters,
                    const Arithmetic& arithmetic, const TokenShard& shard,
                    const Tokenizer& tokenizer, const EvaluationPlan& plan,
                    const std::function<void(int64_t, int64_t)>& progress) {
  ExpertCounts loads;
  const auto losses_of = [&](const Batch& batch, const BatchTensors& tensors) {
    const auto record = RouterStep(config, {}, {batch}).record(batch, arithmetic.device);
    const at::Tensor losses = target_losses(config, parameters, tensors, arithmetic, record);
    if (record) add_loads(loads, record->counts);
    return losses;
  };
  Evaluation evaluation =
      evaluate_windows(shard, tokenizer, plan, arithmetic.device, losses_of, progress);
  evaluation.loads = std::move(loads);
  return evaluation;
}

Evaluation evaluate_through_cache(const ModelConfig& config, const Parameters& parameters,
                                  const Arithmetic& arithmetic, const TokenShard& shard,
                                  const Tokenizer& tokenizer, const EvaluationPlan& plan,
                                  const CachePlan& cache,
                                  const std::function<void(int64_t, int64_t)>& progress) {
  check(cache, plan.packing);
  const auto losses_of = [&](const Batch&, const BatchTensors& batch) {
    return losses_through_cache(config, parameters, batch, arithmetic, cache);
  };
  return evaluate_windows(shard, tokenizer, plan, arithmetic.device, losses_of, progress);
}

}  // namespace kha
