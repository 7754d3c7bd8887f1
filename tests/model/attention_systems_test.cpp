// Every attention system against the formulas of its paper, head by head, in double.
#include "model/attention_systems.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/attention_by_hand.h"
#include "modules/attention/attention.h"
#include "modules/kv_cache.h"

namespace kha::test {
namespace {

constexpr int64_t tokens = 7;

at::Tensor gqa_by_hand(const ByHand& m, const at::Tensor& x) {
  const int64_t width = m.c.head_dim;
  const at::Tensor q = m.project(x, "q_proj"), k = m.project(x, "k_proj"),
                   v = m.project(x, "v_proj");
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < m.c.num_attention_heads; ++h) {
    const int64_t kv = h / m.c.group();
    const auto key = [&](const at::Tensor& rows, int64_t head, KnockSlot slot, const char* gain) {
      return turn_first(m.normed(m.map(head_of(rows, head, width), slot), gain), m.c.rotary_width(),
                        m.c.rope_theta);
    };
    heads.push_back(attend(key(q, h, KnockSlot::q, "q_norm"), key(k, kv, KnockSlot::k, "k_norm"),
                           m.map(head_of(v, kv, width), KnockSlot::v)));
  }
  return m.out(heads);
}

// gta: knock, then tie. gta_value, gta_apart: keys and values are made of the plain state, each
// through its own map; the latter without norms.
at::Tensor gta_by_hand(const ByHand& m, const at::Tensor& x) {
  const int64_t width = m.c.head_dim, rotated = m.c.rope_head_dim, plain = width - rotated;
  const bool knock_then_tie = m.c.attention == "gta", norms = m.c.attention != "gta_apart";
  const double theta = m.c.rope_theta;
  const auto normed = [&](const at::Tensor& part, const char* gain) {
    return norms ? norm(part, m.weight(gain), m.c.rms_norm_eps) : part;
  };
  const at::Tensor q = m.project(x, "q_proj"), z = m.project(x, "kv_proj");
  const at::Tensor k_rope = turn(normed(m.project(x, "k_rope_proj"), "k_rope_norm"), theta);
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < m.c.num_attention_heads; ++h) {
    const at::Tensor query = m.map(head_of(q, h, width), KnockSlot::q);
    const at::Tensor state = head_of(z, h / m.c.group(), width);
    const at::Tensor value = m.map(state, KnockSlot::v);
    const at::Tensor key = (knock_then_tie ? value : state).narrow(1, 0, plain);
    const at::Tensor q_plain = normed(query.narrow(1, 0, plain), "q_norm");
    const at::Tensor q_rope = turn(normed(query.narrow(1, plain, rotated), "q_rope_norm"), theta);
    const at::Tensor k_plain = normed(m.map(key, KnockSlot::k), "k_norm");
    heads.push_back(attend(at::cat({q_plain, q_rope}, 1), at::cat({k_plain, k_rope}, 1), value));
  }
  return m.out(heads);
}

at::Tensor latent_by_hand(const ByHand& m, const at::Tensor& x) {
  const int64_t width = m.c.head_dim, rotated = m.c.rope_head_dim, latent = m.c.kv_latent,
                value = m.c.value_width(), group = m.c.num_attention_heads / m.c.latent_heads;
  const double eps = m.c.rms_norm_eps, theta = m.c.rope_theta;
  const at::Tensor q = m.c.query_latent > 0
                           ? at::mm(norm(m.project(x, "q_a_proj"), m.weight("q_a_layernorm"), eps),
                                    m.weight("q_b_proj").t())
                           : m.project(x, "q_proj");
  const at::Tensor kv = m.project(x, "kv_a_proj_with_mqa");
  const at::Tensor k_rope = turn(kv.narrow(1, m.c.latent_heads * latent, rotated), theta);
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < m.c.num_attention_heads; ++h) {
    const int64_t j = h / group;
    const at::Tensor c =
        norm(head_of(kv, j, latent), m.weight("kv_a_layernorm").narrow(0, j * latent, latent), eps);
    const at::Tensor up = m.weight("kv_b_proj").narrow(0, h * (width + value), width + value);
    const at::Tensor k = m.map(at::mm(c, up.narrow(0, 0, width).t()), KnockSlot::k);
    const at::Tensor v = m.map(at::mm(c, up.narrow(0, width, value).t()), KnockSlot::v);
    const at::Tensor mine = head_of(q, h, width + rotated);
    const at::Tensor query = at::cat({m.map(mine.narrow(1, 0, width), KnockSlot::q),
                                      turn(mine.narrow(1, width, rotated), theta)},
                                     1);
    heads.push_back(attend(query, at::cat({k, k_rope}, 1), v));
  }
  return m.out(heads);
}

at::Tensor by_hand(const ModelConfig& c, const Parameters& parameters, const at::Tensor& x) {
  const ByHand m{c, parameters};
  if (c.attention == "gqa") return gqa_by_hand(m, x);
  if (c.attention == "talking") return talking_by_hand(m, x);
  if (c.attention == "collaborative") return collaborative_by_hand(m, x);
  return c.attention.starts_with("gta") ? gta_by_hand(m, x) : latent_by_hand(m, x);
}

at::Tensor by_module(const ModelConfig& c, const Parameters& parameters, const at::Tensor& x,
                     KnockPlan plan) {
  const auto attention = make_attention(c, parameters, 0, plan);
  const RotaryTable rotary(tokens, c.rotary_width(), c.rope_theta, at::kDouble, at::kCPU);
  const Projected p = attention->project(x.unsqueeze(0), rotary, 0);
  return attention->aggregate(attention->attend(p.queries_BTHD, p.entry, nullptr)).squeeze(0);
}

at::Tensor some_rows(const ModelConfig& c) {
  return at::sin(at::arange(tokens * c.hidden_size, at::kDouble).view({tokens, -1}) * 1.7 + 0.3);
}

// The result, then the gradients of its weighted sum for x and each parameter of the layer.
template <class Compute>
std::vector<at::Tensor> result_and_gradients(const ModelConfig& c, Compute compute) {
  const Parameters parameters = random_parameters(c);
  std::vector<at::Tensor> inputs{some_rows(c).requires_grad_()};
  for (const auto& [name, value] : parameters.entries()) {
    if (name.starts_with(attention_prefix(0))) inputs.push_back(at::Tensor(value).requires_grad_());
  }
  std::vector<at::Tensor> all{compute(parameters, inputs[0])};
  const at::Tensor weights = at::cos(at::arange(all[0].numel(), at::kDouble)).view_as(all[0]);
  torch::autograd::backward({(all[0] * weights).sum()}, {});
  for (const at::Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

TEST(AttentionSystems, AreThePapersFormulasForwardAndBackward) {
  for (const auto& [name, config] : legal_systems()) {
    const auto right = result_and_gradients(config, [&](const auto& parameters, const auto& x) {
      return by_hand(config, parameters, x);
    });
    for (const KnockPlan plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
      const auto found = result_and_gradients(config, [&](const auto& parameters, const auto& x) {
        return by_module(config, parameters, x, plan);
      });
      ASSERT_EQ(found.size(), right.size());
      for (size_t i = 0; i < right.size(); ++i) {
        EXPECT_LT(largest(found[i] - right[i]), 1e-10 * (largest(right[i]) + 1))
            << name << ", " << to_string(plan) << ", tensor " << i;
      }
    }
  }
}

TEST(AttentionSystems, IdentityMapsChangeNoBit) {
  for (const auto& [bare_name, bare] : bare_systems()) {
    const Parameters start = initialise(bare, KnockStart::identity, 5);
    const at::Tensor ids = some_ids(2, 11), without = logits_of(bare, start, ids);
    for (const auto& [name, config] : legal_systems()) {
      if (!name.starts_with(bare_name + ":")) continue;
      for (const auto plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
        const Parameters knocked = initialise(config, KnockStart::identity, 5);
        EXPECT_TRUE(logits_of(config, knocked, ids, plan).equal(without)) << name;
      }
    }
  }
}

at::Tensor in_stretches(const ModelConfig& config, const Parameters& parameters,
                        const at::Tensor& ids, const std::vector<int64_t>& stretches,
                        KnockPlan plan) {
  const at::NoGradGuard no_grad;
  const Decoder decoder(config, parameters, plan, ids.size(1));
  KvCache cache(config, ids.size(0), ids.size(1), at::kDouble, at::kCPU);
  std::vector<at::Tensor> logits;
  for (int64_t length : stretches) {
    logits.push_back(decoder.logits(decoder.hidden(ids.narrow(1, cache.length(), length), &cache)));
  }
  return at::cat(logits, 1);
}

// Latent systems decode without forming keys and values: another order of the same sums.
TEST(AttentionSystems, DecodingFromTheCacheIsOnePassOverTheText) {
  for (const auto& [name, config] : legal_systems()) {
    const Parameters parameters = random_parameters(config);
    const at::Tensor ids = some_ids(2, 13), whole = logits_of(config, parameters, ids);
    for (const auto plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
      for (const std::vector<int64_t>& stretches :
           {std::vector<int64_t>(13, 1), {7, 1, 2, 3}, {1, 12}, {2, 11}}) {
        EXPECT_LT(largest(in_stretches(config, parameters, ids, stretches, plan) - whole),
                  1e-10 * largest(whole))
            << name << ", " << to_string(plan) << ", first " << stretches[0];
      }
    }
  }
}

TEST(AttentionSystems, ACacheHoldsWhatIsDeclared) {
  for (const auto& [name, config] : bare_systems()) {
    const auto attention = make_attention(config, random_parameters(config), 0, {});
    const RotaryTable rotary(tokens, config.rotary_width(), 1e4, at::kDouble, at::kCPU);
    const CacheEntry entry = attention->project(some_rows(config).unsqueeze(0), rotary, 0).entry;
    int64_t elements = 0;
    for (const at::Tensor& tensor : entry) elements += tensor.numel();
    const auto& system = attention_declaration(config.attention, "");
    EXPECT_EQ(elements, tokens * system.cache_elements(config)) << name;
  }
}

TEST(AttentionSystems, GlaWithOneLatentHeadIsMla) {
  ModelConfig mla = with_parts("mla", 1, 14), gla = mla;
  gla.attention = "gla";
  const Parameters parameters = random_parameters(mla);
  const at::Tensor ids = some_ids(2, 11);
  EXPECT_TRUE(logits_of(mla, parameters, ids).equal(logits_of(gla, parameters, ids)));
}

TEST(AttentionSystems, ALaterTokenChangesNothingBefore) {
  for (const auto& [name, config] : bare_systems()) {
    const Parameters parameters = random_parameters(config);
    const at::Tensor ids = some_ids(1, 11);
    at::Tensor other = ids.clone();
    other[0][8] = (other[0][8] + 1).remainder(257);
    const at::Tensor a = logits_of(config, parameters, ids),
                     b = logits_of(config, parameters, other);
    EXPECT_TRUE(a.narrow(1, 0, 8).equal(b.narrow(1, 0, 8))) << name;
    EXPECT_FALSE(a.narrow(1, 8, 3).equal(b.narrow(1, 8, 3))) << name;
  }
}

}  // namespace
}  // namespace kha::test
