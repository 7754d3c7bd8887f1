// Collaborative attention (arXiv 2006.16362): one projection of queries and one of keys, D~ wide,
// for all heads; each head weighs the channels of the queries for itself. No QK-norm: no head has a
// part of the keys of its own.
//
// x -> q_proj -> times a row of `mixing` a head -> rotation;  x -> k_proj -> rotation, one head
// logit_i = (q_i . k + content_bias_i . x) / sqrt(D)
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>

#include <cmath>

#include "kha/core/parameter_table.h"
#include "modules/attention/attention.h"
#include "modules/attention/by_key_head.h"
#include "modules/causal.h"
#include "modules/knock.h"

namespace kha {
namespace {

class Collaborative : public Attention {
 public:
  Collaborative(const ModelConfig& c, const Parameters& parameters, int64_t layer, KnockPlan plan)
      : block_(c.head_dim),
        scale_(1.0 / std::sqrt(static_cast<double>(c.head_dim))),
        v_(parameters, layer, "v_proj", KnockSlot::v, c.knocks.at(layer).v, c.head_dim, plan) {
    const std::string prefix = attention_prefix(layer);
    q_ = parameters.at(prefix + "q_proj.weight");
    k_ = parameters.at(prefix + "k_proj.weight");
    mixing_ = parameters.at(prefix + "mixing.weight");
    content_bias_ = parameters.find(prefix + "content_bias.weight");
    out_ = parameters.at(prefix + "o_proj.weight");
    out_bias_ = parameters.find(prefix + "o_proj.bias");
  }

  Projected project(const at::Tensor& x, const RotaryTable& rotary, int64_t first) const override {
    RECORD_USER_SCOPE("kha/attention projections");
    const at::Tensor queries = at::linear(x, q_).unsqueeze(2) * mixing_;
    CacheEntry entry{rotate_blocks(at::linear(x, k_).unsqueeze(2), rotary, first)};
    if (content_bias_.defined()) entry.push_back(at::linear(x, content_bias_).unsqueeze(2));
    entry.push_back(v_(x));
    return {.queries_BTHD = rotate_blocks(queries, rotary, first), .entry = std::move(entry)};
  }

  at::Tensor attend(const at::Tensor& queries, const CacheEntry& cache,
                    const PackedLayout* layout) const override {
    RECORD_USER_SCOPE("kha/attention core");
    std::vector<at::Tensor> tensors{queries};
    tensors.insert(tensors.end(), cache.begin(), cache.end());
    return attend_texts(tensors, layout,
                        [&](const auto& text, const auto* own) { return attend_text(text, own); });
  }

  at::Tensor aggregate(const at::Tensor& heads) const override {
    return output_projection(heads, out_, out_bias_);
  }

 private:
  // Blocks of D channels turn as the heads of MHA do; what is left behind the last whole block
  // stays. x: [B, T, heads, D~].
  at::Tensor rotate_blocks(const at::Tensor& x, const RotaryTable& rotary, int64_t first) const {
    const int64_t blocks = x.size(3) / block_, whole = blocks * block_;
    const at::Tensor turned =
        rotary
            .rotate(
                x.narrow(3, 0, whole).reshape({x.size(0), x.size(1), x.size(2) * blocks, block_}),
                first)
            .view({x.size(0), x.size(1), x.size(2), whole});
    if (whole == x.size(3)) return turned;
    return at::cat({turned, x.narrow(3, whole, x.size(3) - whole)}, 3);
  }

  // Queries, shared keys, key biases where there are any, values.
  at::Tensor attend_text(const std::vector<at::Tensor>& text, const PackedLayout* layout) const {
    at::Tensor scores = scores_by_key_head(text[0], text[1]);
    if (content_bias_.defined()) scores = scores + text[2].permute({0, 3, 2, 1});
    const at::Tensor& values = text.back();
    return sums_by_key_head(causal_softmax(scores, layout, scale_).to(values.scalar_type()),
                            values);
  }

  int64_t block_;  // D
  double scale_;
  KnockedProjection v_;
  at::Tensor q_, k_, mixing_, content_bias_, out_, out_bias_;
};

}  // namespace

std::unique_ptr<Attention> make_collaborative(const ModelConfig& config,
                                              const Parameters& parameters, int64_t layer,
                                              KnockPlan plan) {
  return std::make_unique<Collaborative>(config, parameters, layer, plan);
}

}  // namespace kha
