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

// One unit in the last place of the stored weights, over that of float32.
double storage_factor(const std::string& dtype) {
  if (dtype == "bfloat16") return 0x1p-8 / 0x1p-24;
  if (dtype == "float16") return 0x1p-11 / 0x1p-24;
  return 1;
}

}  // namespace

double rounding_limit(const LogitDifference& d, const ModelConfig& after) {
  const double one_unit = 0x1p-23 * d.largest_logit;  // equal models have no rounding of their own
  return 2 * std::max(d.rounding, one_unit) * storage_factor(after.dtype);
}

LogitDifference logit_difference(const LoadedModel& before, const LoadedModel& after,
                                 const TokenShard& text, int64_t context, int64_t max_tokens) {
  const at::NoGradGuard no_grad;
  LogitDifference result;
  for (const Window& window : evaluation_windows(text.tokens(), context, max_tokens)) {
    const at::Tensor ids = ids_of(text, window);
    const at::Tensor a = logits_in(at::kFloat, before, ids), b = logits_in(at::kFloat, after, ids);
    const at::Tensor exact_a = logits_in(at::kDouble, before, ids);
    const at::Tensor exact_b = logits_in(at::kDouble, after, ids);
    result.largest = std::max(result.largest, largest(a - b));
    result.largest_exact = std::max(result.largest_exact, largest(exact_a - exact_b));
    result.largest_logit = std::max(result.largest_logit, largest(exact_a));
    result.rounding = std::max(result.rounding, largest(a.to(at::kDouble) - exact_a) +
                                                    largest(b.to(at::kDouble) - exact_b));
    result.positions += window.targets;
    result.changed_choices += a.argmax(-1).ne(b.argmax(-1)).sum().item<int64_t>();
  }
  return result;
}

}  // namespace kha
