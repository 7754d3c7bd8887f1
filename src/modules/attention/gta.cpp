// Grouped-tied attention (arXiv 2505.21487, section 3.3.1).
//
// x -> kv_proj -> state: the value, and in its first D - d_R channels the plain half of the key;
// x -> k_rope_proj -> the rotated half, one head for all. Every part has a norm of its own: one
// over the whole key would give each head another rotated key.
//
// gta:       the map on v acts on the state before it is cached
// gta_value: the state stays plain; the map on v acts on the sums over states
// gta_apart: also the map M on k leaves it plain: q . (M k) = (M^T q) . k; no norms
#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "kha/core/attention_system.h"
#include "kha/core/parameter_table.h"
#include "kha/ops/knock.h"
#include "kha/ops/layers.h"
#include "modules/attention/attention.h"
#include "modules/causal.h"
#include "modules/head_tap.h"
#include "modules/knock.h"

namespace kha {
namespace {

class Gta : public Attention {
 public:
  Gta(const ModelConfig& c, const Parameters& parameters, int64_t layer, KnockPlan plan)
      : eps_(c.rms_norm_eps),
        rotated_(c.rope_head_dim),
        plain_(c.head_dim - c.rope_head_dim),
        plan_(plan),
        keeps_states_plain_(
            attention_declaration(c.attention, "").place(KnockSlot::v).linear_into ==
            FoldHome::output),
        q_(parameters, layer, "q_proj", KnockSlot::q, c.knocks.at(layer).q, c.head_dim, plan),
        state_(parameters, layer, "kv_proj", KnockSlot::v, c.knocks.at(layer).v, c.head_dim, plan),
        k_map_(parameters, layer, KnockSlot::k, c.knocks.at(layer).k),
        v_map_(parameters, layer, KnockSlot::v, c.knocks.at(layer).v) {
    const auto weight = [&](const std::string& name) {
      return parameters.find(attention_prefix(layer) + name + ".weight");
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
    return {
        .queries_BTHD = at::cat({to_keys(norm(q.narrow(3, 0, plain_), q_norm_)),
                                 turn(q.narrow(3, plain_, rotated_), q_rope_norm_, rotary, first)},
                                3),
        .entry = {keeps_states_plain_ ? plain_state(x) : state_(x),
                  turn(key, k_rope_norm_, rotary, first)}};
  }

  at::Tensor attend(const at::Tensor& queries, const CacheEntry& cache,
                    const PackedLayout* layout) const override {
    RECORD_USER_SCOPE("kha/attention core");
    const at::Tensor &states = cache[0], &rotated = cache[1];
    const at::Tensor plain = norm(states.narrow(3, 0, plain_), k_norm_);
    const at::Tensor keys = at::cat({plain, rotated.expand({-1, -1, states.size(2), -1})}, 3);
    return causal_attention(queries, keys, states, layout);
  }

  at::Tensor aggregate(const at::Tensor& heads) const override {
    if (!keeps_states_plain_ || v_map_.kind() == KnockKind::none) {
      return output_projection(heads, out_, out_bias_);
    }
    if (in_weight_space(plan_)) {
      return output_projection(heads, with_mapped_columns(out_, v_map_.matrix()), out_bias_);
    }
    return output_projection(ops::knock_linear(heads, v_map_.matrix()), out_, out_bias_);
  }

 private:
  // A tap wants to see keys and values, which are not formed here: it gets them made for it.
  at::Tensor plain_state(const at::Tensor& x) const {
    const at::Tensor states = state_.plain(x);
    if (current_head_tap()) {
      k_map_(states.narrow(3, 0, plain_));
      v_map_(states);
    }
    return states;
  }

  at::Tensor norm(const at::Tensor& x, const at::Tensor& gain) const {
    return gain.defined() ? ops::rms_norm(x, gain, eps_) : x;
  }
  at::Tensor turn(const at::Tensor& x, const at::Tensor& gain, const RotaryTable& rotary,
                  int64_t first) const {
    return gain.defined() ? rotary.norm_and_rotate(x, gain, eps_, first) : rotary.rotate(x, first);
  }

  // The map on keys, on the side of the queries.
  at::Tensor to_keys(const at::Tensor& q) const {
    return k_map_.kind() == KnockKind::none ? q : at::matmul(q, k_map_.matrix());
  }

  double eps_;
  int64_t rotated_, plain_;  // channels: d_R, D - d_R
  KnockPlan plan_;
  bool keeps_states_plain_;
  KnockedProjection q_, state_;
  Knock k_map_, v_map_;
  at::Tensor rotated_key_, q_norm_, q_rope_norm_, k_norm_, k_rope_norm_, out_, out_bias_;
};

}  // namespace

std::unique_ptr<Attention> make_gta(const ModelConfig& config, const Parameters& parameters,
                                    int64_t layer, KnockPlan plan) {
  return std::make_unique<Gta>(config, parameters, layer, plan);
}

}  // namespace kha
