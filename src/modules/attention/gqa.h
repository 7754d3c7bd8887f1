// Grouped-query attention with rotary embedding, and per-head QK-norm unless the model has none;
// MHA and MQA are its ends.
//
// x -> projection -> map -> [norm -> rotation on q, k] -> softmax(q k^T / sqrt(D)) v -> o_proj
#pragma once

#include "modules/attention/attention.h"
#include "modules/knock.h"

namespace kha {

class Gqa : public Attention {
 public:
  Gqa(const ModelConfig& config, const Parameters& parameters, int64_t layer, KnockPlan plan);

  Projected project(const at::Tensor& x_BTd, const RotaryTable& rotary,
                    int64_t first) const override;
  at::Tensor attend(const at::Tensor& queries_BTHD, const CacheEntry& cache,
                    const PackedLayout* layout) const override;
  at::Tensor aggregate(const at::Tensor& heads_BTHD) const override;

 private:
  // Norm (where there is one) and rotation.
  at::Tensor place(const at::Tensor& heads_BTHD, const at::Tensor& norm, const RotaryTable& rotary,
                   int64_t first) const;

  double eps_;
  KnockedProjection q_, k_, v_;
  at::Tensor q_norm_, k_norm_, out_, out_bias_;
};

}  // namespace kha
