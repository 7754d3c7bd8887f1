#include "model/logit_difference.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "kha/core/batch.h"
#include "model/decoder.h"

namespace kha {
namespace {

at::Tensor logits_in(at::ScalarType dtype, const LoadedModel& model, const at::Tensor& ids) {
  const Decoder decoder(model.config, model.parameters.cast(dtype), KnockPlan::activation_space,
                        ids.size(1));
  return decoder.logits(decoder.hidden(ids));
}

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

at::Tensor ids_of(const TokenShard& text, const Window& window) {
  at::Tensor ids = at::empty({1, window.targets}, at::kLong);
  text.copy(window.begin, window.targets, ids.mutable_data_ptr<int64_t>());
  return ids;
}

}  // namespace

LogitDifference logit_difference(const LoadedModel& before, const LoadedModel& after,
                                 const TokenShard& text, int64_t context, int64_t max_tokens) {
  const at::NoGradGuard no_grad;
  LogitDifference result;
  for (const Window& window : evaluation_windows(text.tokens(), context, max_tokens)) {
    const at::Tensor ids = ids_of(text, window);
    const at::Tensor a = logits_in(at::kFloat, before, ids), b = logits_in(at::kFloat, after, ids);
    const at::Tensor exact = logits_in(at::kDouble, before, ids);
    result.largest = std::max(result.largest, largest(a - b));
    result.largest_logit = std::max(result.largest_logit, largest(exact));
    result.rounding = std::max(result.rounding, largest(a.to(at::kDouble) - exact));
    result.positions += window.targets;
    result.changed_choices += a.argmax(-1).ne(b.argmax(-1)).sum().item<int64_t>();
  }
  return result;
}

}  // namespace kha
