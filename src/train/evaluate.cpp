#include "train/evaluate.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kha/core/error.h"

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
}

Evaluation evaluate(const ModelConfig& config, const Parameters& parameters,
                    const Arithmetic& arithmetic, const TokenShard& shard,
                    const Tokenizer& tokenizer, const EvaluationPlan& plan,
                    const std::function<void(int64_t, int64_t)>& progress) {
  const at::NoGradGuard no_grad;
  const auto windows = evaluation_windows(shard.tokens(), plan.context, plan.max_tokens);
  const auto count = static_cast<int64_t>(windows.size());
  Evaluation evaluation;
  Batch batch;
  for (int64_t begin = 0; begin < count; begin += plan.rows) {
    const int64_t rows = std::min(plan.rows, count - begin);
    fill_batch(shard, std::span(windows).subspan(begin, rows), plan.context, plan.boundary, batch);
    const BatchTensors tensors = to_tensors(batch, plan.packing, arithmetic.device);
    add_batch(batch, target_losses(config, parameters, tensors, arithmetic), tokenizer, evaluation);
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

}  // namespace kha
