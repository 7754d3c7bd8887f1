// Grouped-tied attention (arXiv 2505.21487, section 3.3.1), the map on the tied state before it is
// cached.
//
// x -> kv_proj -> map -> state: the value, and in its first D - d_R channels the plain half of the
// key; x -> k_rope_proj -> the rotated half, one head for all. Every part has a norm of its own:
// one over the whole key would give each head another rotated key.
#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "kha/core/parameter_table.h"
#include "kha/ops/layers.h"
#include "modules/attention/attention.h"
#include "modules/causal.h"
#include "modules/knock.h"

namespace kha {
namespace {

class Gta : public Attention {
 public:
  Gta(const ModelConfig& c, const Parameters& parameters, int64_t layer, KnockPlan plan)
      : eps_(c.rms_norm_eps),
        rotated_(c.rope_head_dim),
        plain_(c.head_dim - c.rope_head_dim),
        q_(parameters, layer, "q_proj", KnockSlot::q, c.knocks.at(layer).q, c.head_dim, plan),
        state_(parameters, layer, "kv_proj", KnockSlot::v, c.knocks.at(layer).v, c.head_dim, plan) {
    const auto weight = [&](const std::string& name) {
      return parameters.at(attention_prefix(layer) + name + ".weight");
    };
    rotated_key_ = weight("k_rope_proj");
    q_norm_ = weight("q_norm");
    q_rope_norm_ = weight("q_rope_norm");
    k_norm_ = weight("k_norm");
    k_rope_norm_ = weight("k_rope_norm");
    out_ = weight("o_proj");
    out_bias_ = parameters.find(attention_prefix(layer) + "o_proj.bias");
  }

  Projected project(const at::Tensor& x, const RotaryTable& rotary, int64_t first) const override {
    const at::Tensor q = q_(x);
    const at::Tensor key = at::linear(x, rotated_key_).unsqueeze(2);
    return {.queries_BTHD = at::cat(
                {ops::rms_norm(q.narrow(3, 0, plain_), q_norm_, eps_),
                 rotary.norm_and_rotate(q.narrow(3, plain_, rotated_), q_rope_norm_, eps_, first)},
                3),
            .entry = {state_(x), rotary.norm_and_rotate(key, k_rope_norm_, eps_, first)}};
  }

  at::Tensor attend(const at::Tensor& queries, const CacheEntry& cache,
                    const PackedLayout* layout) const override {
    RECORD_USER_SCOPE("kha/attention core");
    const at::Tensor &states = cache[0], &rotated = cache[1];
    const at::Tensor plain = ops::rms_norm(states.narrow(3, 0, plain_), k_norm_, eps_);
    const at::Tensor keys = at::cat({plain, rotated.expand({-1, -1, states.size(2), -1})}, 3);
    return causal_attention(queries, keys, states, layout);
  }

  at::Tensor aggregate(const at::Tensor& heads) const override {
    return output_projection(heads, out_, out_bias_);
  }

 private:
  double eps_;
  int64_t rotated_, plain_;  // channels: d_R, D - d_R
  KnockedProjection q_, state_;
  at::Tensor rotated_key_, q_norm_, q_rope_norm_, k_norm_, k_rope_norm_, out_, out_bias_;
};

}  // namespace

std::unique_ptr<Attention> make_gta(const ModelConfig& config, const Parameters& parameters,
                                    int64_t layer, KnockPlan plan) {
  return std::make_unique<Gta>(config, parameters, layer, plan);
}

}  // namespace kha
