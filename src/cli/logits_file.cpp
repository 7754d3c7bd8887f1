#include "cli/logits_file.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "model/decoder.h"
#include "model/generate/next_logits.h"
#include "model/tensor_bytes.h"

namespace kha::cli {
namespace {

at::Tensor logits_in(at::ScalarType dtype, const LoadedModel& model, const at::Tensor& ids) {
  const Decoder decoder(model.config, model.parameters.cast(dtype), KnockPlan::activation_space,
                        ids.size(0));
  return decoder.logits(decoder.hidden(ids.unsqueeze(0)))[0].contiguous();
}

at::Tensor greedy(const LoadedModel& model, std::vector<int64_t> ids, int64_t count) {
  const auto given = static_cast<int64_t>(ids.size());
  NextLogits next(model, {}, given + count);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<float> row = next.after(ids, model.config.vocab_size);
    ids.push_back(std::max_element(row.begin(), row.end()) - row.begin());
  }
  return at::tensor(ids, at::kLong).narrow(0, given, count).clone();
}

}  // namespace

void write_logits(const std::filesystem::path& file, const LoadedModel& model,
                  const std::vector<int64_t>& ids, int64_t continued) {
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = at::tensor(ids, at::kLong);
  write_tensors(file, {{"logits_float64", logits_in(at::kDouble, model, tokens)},
                       {"ids", tokens},
                       {"continuation", greedy(model, ids, continued)},
                       {"logits", logits_in(at::kFloat, model, tokens)}});
}

}  // namespace kha::cli
