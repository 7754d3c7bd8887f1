// Latent attention: MLA (arXiv 2405.04434) with one latent head, GLA (arXiv 2505.21487) with more.
//
// x -> kv_a -> norm -> latents, which alone are cached, and one rotated key. Keys and values are
// products of the latents (kv_b), each followed by its map. In a decode step they are not formed:
// the query goes through the key's product instead, and the value's product is taken of the sum
// over latents ("absorbed"). Only a linear map commutes with that sum.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <cmath>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/parameter_table.h"
#include "kha/ops/layers.h"
#include "modules/attention/attention.h"
#include "modules/causal.h"
#include "modules/knock.h"
#include "modules/optional_tensor.h"

namespace kha {
namespace {

class Latent : public Attention {
 public:
  Latent(const ModelConfig& c, const Parameters& parameters, int64_t layer, KnockPlan plan,
         DecodeForm form)
      : config_(c),
        plan_(plan),
        form_(form),
        q_map_(parameters, layer, KnockSlot::q, c.knocks.at(layer).q),
        k_map_(parameters, layer, KnockSlot::k, c.knocks.at(layer).k),
        v_map_(parameters, layer, KnockSlot::v, c.knocks.at(layer).v) {
    const std::string prefix = attention_prefix(layer);
    q_a_ = parameters.find(prefix + "q_a_proj.weight");
    q_a_bias_ = parameters.find(prefix + "q_a_proj.bias");
    q_a_norm_ = parameters.find(prefix + "q_a_layernorm.weight");
    q_b_ = parameters.at(prefix + (q_a_.defined() ? "q_b_proj.weight" : "q_proj.weight"));
    kv_a_ = parameters.at(prefix + "kv_a_proj_with_mqa.weight");
    kv_a_bias_ = parameters.find(prefix + "kv_a_proj_with_mqa.bias");
    kv_a_norm_ = parameters.at(prefix + "kv_a_layernorm.weight");
    kv_b_ = parameters.at(prefix + "kv_b_proj.weight");
    out_ = parameters.at(prefix + "o_proj.weight");
    out_bias_ = parameters.find(prefix + "o_proj.bias");
  }

  Projected project(const at::Tensor& x, const RotaryTable& rotary, int64_t first) const override {
    RECORD_USER_SCOPE("kha/attention projections");
    const int64_t heads = config_.num_attention_heads, width = config_.head_dim,
                  rotated = config_.rope_head_dim, latents = config_.latent_heads;
    const at::Tensor from = q_a_.defined()
                                ? ops::rms_norm(at::linear(x, q_a_, optional_of(q_a_bias_)),
                                                q_a_norm_, config_.latent_eps())
                                : x;
    const at::Tensor q = at::linear(from, mapped(q_b_, KnockSlot::q, q_map_))
                             .view({x.size(0), x.size(1), heads, width + rotated});
    const at::Tensor kv = at::linear(x, kv_a_, optional_of(kv_a_bias_));
    const at::Tensor key = kv.narrow(2, latents * config_.kv_latent, rotated).unsqueeze(2);
    return {.queries_BTHD = scaled(at::cat({apply(q_map_, q.narrow(3, 0, width)),
                                            rotary.rotate(q.narrow(3, width, rotated), first)},
                                           3)),
            .entry = {norm_latents(kv), rotary.rotate(key, first)}};
  }

  at::Tensor attend(const at::Tensor& queries, const CacheEntry& cache,
                    const PackedLayout* layout) const override {
    RECORD_USER_SCOPE("kha/attention core");
    if (form_ == DecodeForm::absorbed) refuse_training(queries);
    if (queries.numel() > 0 && absorbs(queries.size(1), cache[0].size(1)))
      return attend_absorbed(queries, cache, layout);
    return attend_formed(queries, cache, layout);
  }

  at::Tensor aggregate(const at::Tensor& heads) const override {
    return output_projection(heads, out_, out_bias_);
  }

 private:
  // Its gradients would be right and never wanted: training forms keys and values.
  void refuse_training(const at::Tensor& queries) const {
    if (!at::GradMode::is_enabled() || !queries.requires_grad()) return;
    fail({.what = "absorbed decoding is not for training",
          .where = "attention `" + config_.attention + "`",
          .expected = "a pass without gradients",
          .found = "queries that require a gradient",
          .next = "name no form: keys and values are formed where gradients are taken"});
  }

  // The logits' own scale under yarn, which every form of attention then has.
  at::Tensor scaled(const at::Tensor& queries) const {
    const double scale = rotary_logit_scale(config_.rotary_scaling);
    return scale == 1 ? queries : queries * scale;
  }

  int64_t group() const { return config_.num_attention_heads / config_.latent_heads; }

  // In weight space a linear map is in the weight already.
  at::Tensor apply(const Knock& map, const at::Tensor& x) const {
    return in_weight_space(plan_) ? x : map(x);
  }
  at::Tensor mapped(const at::Tensor& weight, KnockSlot slot, const Knock& map) const {
    if (!in_weight_space(plan_) || map.kind() == KnockKind::none) return weight;
    const auto& place = attention_declaration(config_.attention, "").place(slot);
    return with_mapped_rows(weight, place.rows(config_), map.matrix());
  }

  // [B, T, h_c, d_c]; each latent head has a norm and a gain of its own.
  at::Tensor norm_latents(const at::Tensor& kv) const {
    const int64_t width = config_.kv_latent;
    std::vector<at::Tensor> normed;
    for (int64_t j = 0; j < config_.latent_heads; ++j) {
      normed.push_back(ops::rms_norm(kv.narrow(2, j * width, width),
                                     kv_a_norm_.narrow(0, j * width, width), config_.latent_eps()));
    }
    return at::stack(normed, 2);
  }

  // Whether going through the latents takes fewer operations than forming keys and values of every
  // cached position. Only in decoding: its sums are others than those of training.
  bool absorbs(int64_t queries, int64_t positions) const {
    if (form_ != DecodeForm::fewest_operations) return form_ == DecodeForm::absorbed;
    if (at::GradMode::is_enabled() || queries == positions) return false;
    const int64_t formed = kv_width(), latent = config_.kv_latent;
    return queries * (2 * latent - formed) < formed * latent;
  }

  // Rows of a head in kv_b: D of the key, then D_v of the value.
  int64_t kv_width() const { return config_.head_dim + config_.value_width(); }

  // kv_b as [h_c, g, D + D_v, d_c].
  at::Tensor by_group(const at::Tensor& weight) const {
    return weight.view({config_.latent_heads, group(), kv_width(), config_.kv_latent});
  }

  at::Tensor attend_formed(const at::Tensor& queries, const CacheEntry& cache,
                           const PackedLayout* layout) const {
    const int64_t batch = cache[0].size(0), positions = cache[0].size(1), width = config_.head_dim,
                  heads = config_.num_attention_heads;
    const at::Tensor kv_b = mapped(mapped(kv_b_, KnockSlot::k, k_map_), KnockSlot::v, v_map_);
    const at::Tensor weight =
        by_group(kv_b).flatten(1, 2).transpose(1, 2);  // [h_c, d_c, g (D + D_v)]
    const at::Tensor latents = cache[0].permute({2, 0, 1, 3}).flatten(1, 2);  // [h_c, B S, d_c]
    const at::Tensor kv = at::bmm(latents, weight)
                              .view({config_.latent_heads, batch, positions, group(), kv_width()})
                              .permute({1, 2, 0, 3, 4})
                              .reshape({batch, positions, heads, kv_width()});
    const at::Tensor keys =
        at::cat({apply(k_map_, kv.narrow(3, 0, width)), cache[1].expand({-1, -1, heads, -1})}, 3);
    return causal_attention(queries, keys,
                            apply(v_map_, kv.narrow(3, width, config_.value_width())), layout);
  }

  // [H, B T, width] -> [B, h_c, g T, width]
  at::Tensor to_groups(const at::Tensor& x, int64_t batch) const {
    const int64_t length = x.size(1) / batch, width = x.size(2);
    return x.view({config_.latent_heads, group(), batch, length, width})
        .permute({2, 0, 1, 3, 4})
        .reshape({batch, config_.latent_heads, group() * length, width});
  }
  // and back: [H, B T, width]
  at::Tensor to_heads(const at::Tensor& x) const {
    const int64_t batch = x.size(0), length = x.size(2) / group(), width = x.size(3);
    return x.view({batch, config_.latent_heads, group(), length, width})
        .permute({1, 2, 0, 3, 4})
        .reshape({config_.num_attention_heads, batch * length, width});
  }

  // Queries [B, T, H, D + d_R] over latents [B, S, h_c, d_c], one latent head after the other: each
  // is read where it lies in the cache, once for the scores and once for the sums.
  at::Tensor attend_absorbed(const at::Tensor& queries, const CacheEntry& cache,
                             const PackedLayout* layout) const {
    const int64_t batch = queries.size(0), length = queries.size(1), width = config_.head_dim,
                  heads = config_.num_attention_heads, value = config_.value_width();
    const at::Tensor kv_b = kv_b_.view({heads, kv_width(), config_.kv_latent});
    const at::Tensor by_head = queries.permute({2, 0, 1, 3}).flatten(1, 2);  // [H, B T, D + d_R]
    at::Tensor plain = by_head.narrow(2, 0, width);
    if (k_map_.kind() == KnockKind::linear) plain = at::matmul(plain, k_map_.matrix());
    const at::Tensor q = to_groups(at::bmm(plain, kv_b.narrow(1, 0, width)), batch);
    const at::Tensor turned = to_groups(by_head.narrow(2, width, config_.rope_head_dim), batch);
    std::vector<at::Tensor> sums;
    for (int64_t j = 0; j < config_.latent_heads; ++j) {
      sums.push_back(sum_of_latents(q.select(1, j), turned.select(1, j), cache[0].select(2, j),
                                    cache[1].select(2, 0), layout));
    }
    const at::Tensor summed = to_heads(at::stack(sums, 1));  // [H, B T, d_c]
    const at::Tensor values = at::bmm(summed, kv_b.narrow(1, width, value).transpose(1, 2));
    return v_map_(values.view({heads, batch, length, value}).permute({1, 2, 0, 3}));
  }

  // Of one latent head: queries [B, g T, d_c] and [B, g T, d_R] over latents [B, S, d_c] and the
  // rotated key [B, S, d_R]; [B, g T, d_c]. The scale stays that of the head's width,
  // 1 / sqrt(D + d_R).
  at::Tensor sum_of_latents(const at::Tensor& q, const at::Tensor& turned,
                            const at::Tensor& latents, const at::Tensor& rotated,
                            const PackedLayout* layout) const {
    const double scale = 1 / std::sqrt(config_.head_dim + config_.rope_head_dim);
    const at::Tensor scores =
        at::baddbmm(at::bmm(turned, rotated.transpose(1, 2)), q, latents.transpose(1, 2));
    const at::Tensor by_head =
        scores.view({scores.size(0), group(), scores.size(1) / group(), scores.size(2)});
    const at::Tensor weights = causal_softmax(by_head, layout, scale).view(scores.sizes());
    return at::bmm(weights.to(latents.scalar_type()), latents);
  }

  ModelConfig config_;
  KnockPlan plan_;
  DecodeForm form_;
  Knock q_map_, k_map_, v_map_;
  at::Tensor q_a_, q_a_bias_, q_a_norm_, q_b_, kv_a_, kv_a_bias_, kv_a_norm_, kv_b_, out_,
      out_bias_;
};

}  // namespace

std::unique_ptr<Attention> make_latent(const ModelConfig& config, const Parameters& parameters,
                                       int64_t layer, KnockPlan plan, DecodeForm form) {
  return std::make_unique<Latent>(config, parameters, layer, plan, form);
}

}  // namespace kha
