// Talking-heads attention (arXiv 2003.02436) over grouped queries: each head's logits are a mixture
// of all heads' before the mask, each head's weights one of all heads' behind the softmax. It needs
// the logits themselves, so it keeps three tensors of [B, H, T, S] for the backward pass.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>

#include <cmath>

#include "kha/core/parameter_table.h"
#include "modules/attention/by_key_head.h"
#include "modules/attention/gqa.h"
#include "modules/causal.h"

namespace kha {
namespace {

// Row a of mix [H, H]: what head a takes of each head. x: [B, H, T, S] -> the same shape.
at::Tensor mix_heads(const at::Tensor& x, const at::Tensor& mix) {
  return at::bmm(mix.expand({x.size(0), -1, -1}), x.flatten(2)).view(x.sizes());
}

class Talking : public Gqa {
 public:
  Talking(const ModelConfig& c, const Parameters& parameters, int64_t layer, KnockPlan plan)
      : Gqa(c, parameters, layer, plan),
        logit_mix_(parameters.at(attention_prefix(layer) + "logit_mix.weight")),
        weight_mix_(parameters.at(attention_prefix(layer) + "weight_mix.weight")) {}

  at::Tensor attend(const at::Tensor& queries, const CacheEntry& cache,
                    const PackedLayout* layout) const override {
    RECORD_USER_SCOPE("kha/attention core");
    return attend_texts({queries, cache[0], cache[1]}, layout,
                        [&](const auto& x, const auto* own) { return attend_text(x, own); });
  }

 private:
  // The mask comes behind the first mixing: before it, minus infinity times zero would be NaN.
  at::Tensor attend_text(const std::vector<at::Tensor>& text, const PackedLayout* layout) const {
    const at::Tensor &queries = text[0], &keys = text[1], &values = text[2];
    const double scale = 1.0 / std::sqrt(static_cast<double>(queries.size(3)));
    const at::Tensor logits = mix_heads(scores_by_key_head(queries, keys), logit_mix_);
    const at::Tensor weights = causal_softmax(logits, layout, scale).to(values.scalar_type());
    return sums_by_key_head(mix_heads(weights, weight_mix_), values);
  }

  at::Tensor logit_mix_, weight_mix_;
};

}  // namespace

std::unique_ptr<Attention> make_talking(const ModelConfig& config, const Parameters& parameters,
                                        int64_t layer, KnockPlan plan) {
  return std::make_unique<Talking>(config, parameters, layer, plan);
}

}  // namespace kha
