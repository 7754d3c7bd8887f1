#include "modules/attention/gqa.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "kha/core/attention_system.h"
#include "kha/core/parameter_table.h"
#include "modules/causal.h"

namespace kha {
namespace {

KnockedProjection make_projection(const ModelConfig& c, const Parameters& parameters, int64_t layer,
                                  KnockSlot slot, KnockPlan plan) {
  const std::string name = attention_declaration(c.attention, "").place(slot).projection(c);
  return {parameters, layer, name, slot, c.knocks.at(layer).at(slot), c.head_dim, plan};
}

// Undefined in a model without QK-norm.
at::Tensor make_norm(const ModelConfig& c, const Parameters& parameters, int64_t layer,
                     const std::string& name) {
  return c.qk_norm ? parameters.at(attention_prefix(layer) + name + ".weight") : at::Tensor();
}

}  // namespace

Gqa::Gqa(const ModelConfig& c, const Parameters& parameters, int64_t layer, KnockPlan plan)
    : eps_(c.rms_norm_eps),
      q_(make_projection(c, parameters, layer, KnockSlot::q, plan)),
      k_(make_projection(c, parameters, layer, KnockSlot::k, plan)),
      v_(make_projection(c, parameters, layer, KnockSlot::v, plan)),
      q_norm_(make_norm(c, parameters, layer, "q_norm")),
      k_norm_(make_norm(c, parameters, layer, "k_norm")),
      out_(parameters.at(attention_prefix(layer) + "o_proj.weight")),
      out_bias_(parameters.find(attention_prefix(layer) + "o_proj.bias")) {}

Projected Gqa::project(const at::Tensor& x, const RotaryTable& rotary, int64_t first) const {
  return {.queries_BTHD = place(q_(x), q_norm_, rotary, first),
          .entry = {place(k_(x), k_norm_, rotary, first), v_(x)}};
}

at::Tensor Gqa::attend(const at::Tensor& queries, const CacheEntry& cache,
                       const PackedLayout* layout) const {
  RECORD_USER_SCOPE("kha/attention core");
  return causal_attention(queries, cache[0], cache[1], layout);
}

at::Tensor Gqa::place(const at::Tensor& heads, const at::Tensor& norm, const RotaryTable& rotary,
                      int64_t first) const {
  return norm.defined() ? rotary.norm_and_rotate(heads, norm, eps_, first)
                        : rotary.rotate(heads, first);
}

at::Tensor Gqa::aggregate(const at::Tensor& heads) const {
  return output_projection(heads, out_, out_bias_);
}

std::unique_ptr<Attention> make_gqa(const ModelConfig& config, const Parameters& parameters,
                                    int64_t layer, KnockPlan plan) {
  return std::make_unique<Gqa>(config, parameters, layer, plan);
}

}  // namespace kha
