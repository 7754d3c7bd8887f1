// Systems that must be one another at their ends: talking heads, collaborative, MHA, GQA, MQA.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <tuple>

#include "model/attention_by_hand.h"
#include "model/attention_systems.h"
#include "modules/attention/attention.h"
#include "modules/causal.h"

namespace kha::test {
namespace {

ModelConfig named(const std::string& attention, int64_t kv_heads) {
  ModelConfig c = tiny_config();
  c.attention = attention;
  c.num_key_value_heads = kv_heads;
  return c;
}

// The same values but for one tensor of every layer.
Parameters with_tensor(const ModelConfig& c, const Parameters& parameters, const std::string& name,
                       const std::function<at::Tensor(const at::Tensor&)>& change) {
  Parameters changed;
  for (const auto& [each, value] : parameters.entries()) {
    changed.add(each, each.ends_with("self_attn." + name + ".weight") ? change(value) : value);
  }
  EXPECT_TRUE(changed.find(attention_prefix(c.num_hidden_layers - 1) + name + ".weight").defined());
  return changed;
}

at::Tensor identity(const at::Tensor& like) { return at::eye(like.size(0), at::kDouble); }

// [2, T, heads, D] of no pattern.
at::Tensor features(int64_t length, int64_t heads, int64_t width, double phase) {
  return at::sin(at::arange(2 * length * heads * width, at::kDouble) * 1.9 + phase)
      .view({2, length, heads, width});
}

// To rounding: the logits are products of their own, not those of the fused attention.
TEST(MixingSystems, TalkingHeadsStartAsGqa) {
  const ModelConfig talking = named("talking", 2), gqa = named("gqa", 2);
  const at::Tensor ids = some_ids(2, 11);
  const at::Tensor right = logits_of(gqa, initialise(gqa, KnockStart::identity, 5), ids),
                   found = logits_of(talking, initialise(talking, KnockStart::identity, 5), ids);
  EXPECT_LT(largest(found - right), 1e-6 * largest(right));
  const Parameters plain = random_parameters(gqa), other = random_parameters(talking);
  Parameters mixed;
  for (const auto& [name, value] : other.entries()) {
    const at::Tensor same = plain.find(name);
    mixed.add(name, same.defined() ? same : identity(value));
  }
  const at::Tensor exact = logits_of(gqa, plain, ids);
  EXPECT_LT(largest(logits_of(talking, mixed, ids) - exact), 1e-12 * largest(exact));
}

// D~ = H D and row a of `mixing` constant on each block: head a's query is the heads' queries side
// by side, each times what logit_mix takes of it.
TEST(MixingSystems, TalkingHeadsAreCollaborativeOnBlocks) {
  const ModelConfig talking = named("talking", 4);
  const Parameters parameters =
      with_tensor(talking, random_parameters(talking), "weight_mix", identity);
  const int64_t length = 7, heads = 4, width = talking.head_dim;
  const at::Tensor q = features(length, heads, width, 0.3), k = features(length, heads, width, 1.1),
                   v = features(length, heads, width, 2.3);
  const at::Tensor right = make_attention(talking, parameters, 0, {})->attend(q, {k, v}, nullptr);
  const at::Tensor mix = parameters.at(attention_prefix(0) + "logit_mix.weight");
  const at::Tensor queries = (q.unsqueeze(2) * mix.view({heads, heads, 1})).flatten(3);
  const ModelConfig shared = collaborative(heads * width, false);
  const at::Tensor found = make_attention(shared, random_parameters(shared), 0, {})
                               ->attend(queries, {k.flatten(2).unsqueeze(2), v}, nullptr);
  EXPECT_LT(largest(found - right), 1e-12);
}

TEST(MixingSystems, CollaborativeStartsAsMhaWithoutNorms) {
  const ModelConfig c = collaborative(24, true);
  Parameters parameters = random_parameters(c);
  const Parameters start = initialise(c, KnockStart::identity, 1);
  for (const char* name : {"mixing", "content_bias"}) {
    parameters = with_tensor(c, parameters, name, [&](const at::Tensor&) {
      return start.at(attention_prefix(0) + name + ".weight").to(at::kDouble);
    });
  }
  const ByHand m{c, parameters};
  const at::Tensor x = at::sin(at::arange(7 * c.hidden_size, at::kDouble).view({7, -1}) * 1.7);
  const at::Tensor q = m.project(x, "q_proj"), k = m.project(x, "k_proj"),
                   v = m.project(x, "v_proj");
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < c.num_attention_heads; ++h) {
    heads.push_back(attend(turn(head_of(q, h, 6), c.rope_theta),
                           turn(head_of(k, h, 6), c.rope_theta), head_of(v, h, 6)));
  }
  const auto attention = make_attention(c, parameters, 0, {});
  const Projected p =
      attention->project(x.unsqueeze(0), RotaryTable(7, 6, c.rope_theta, at::kDouble, at::kCPU), 0);
  const at::Tensor found =
      attention->aggregate(attention->attend(p.queries_BTHD, p.entry, nullptr)).squeeze(0);
  EXPECT_LT(largest(found - m.out(heads)), 1e-12);
}

TEST(MixingSystems, AMixingThatHasNoBlocksStartsAtRandom) {
  const auto mixing = [](int64_t width) {
    ModelConfig c = collaborative(width, false);
    c.initializer_range = 0.01;
    return initialise(c, KnockStart::identity, 1).at(attention_prefix(0) + "mixing.weight");
  };
  EXPECT_TRUE(mixing(12).equal(at::eye(4).repeat_interleave(3, 1)));
  EXPECT_NEAR(mixing(4001).std().item<double>(), 0.2, 0.01);
}

// Every KV head stored once for each query head that it serves.
TEST(MixingSystems, GroupedHeadsAreMhaWithEqualHeads) {
  for (const std::string attention : {"gqa", "talking"}) {
    for (const int64_t kv_heads : {1, 2}) {
      const ModelConfig grouped = named(attention, kv_heads), mha = named(attention, 4);
      const Parameters parameters = random_parameters(grouped);
      Parameters repeated = parameters;
      for (const char* name : {"k_proj", "v_proj"}) {
        repeated = with_tensor(grouped, repeated, name, [&](const at::Tensor& weight) {
          return weight.view({kv_heads, 6, -1}).repeat_interleave(4 / kv_heads, 0).flatten(0, 1);
        });
      }
      const at::Tensor ids = some_ids(2, 11), right = logits_of(grouped, parameters, ids);
      EXPECT_LT(largest(logits_of(mha, repeated, ids) - right), 1e-12 * largest(right))
          << attention << ", " << kv_heads;
    }
  }
}

// Minus infinity times a negative share, or beside another: NaN if the mask came before.
TEST(MixingSystems, SignedLogitMixingIsFiniteAndSeesNoFuture) {
  const ModelConfig c = named("talking", 2);
  const Parameters parameters =
      with_tensor(c, random_parameters(c), "logit_mix", [](const auto& w) {
        return at::cos(at::arange(w.numel(), at::kDouble) * 2.4).view_as(w) * 5;
      });
  ASSERT_LT(parameters.at(attention_prefix(0) + "logit_mix.weight").min().item<double>(), -1);
  const at::Tensor ids = some_ids(1, 11);
  at::Tensor other = ids.clone();
  other[0][8] = (other[0][8] + 1).remainder(257);
  const at::Tensor a = logits_of(c, parameters, ids), b = logits_of(c, parameters, other);
  EXPECT_TRUE(at::isfinite(a).all().item<bool>());
  EXPECT_TRUE(a.narrow(1, 0, 8).equal(b.narrow(1, 0, 8)));
  EXPECT_FALSE(a.narrow(1, 8, 3).equal(b.narrow(1, 8, 3)));
}

// An unseen key has a weight of exactly zero, whatever its score is.
TEST(CausalSoftmax, SeesWhatIsAllowedAlone) {
  at::Tensor scores = at::zeros({1, 1, 2, 4}, at::kDouble);
  scores[0][0][0][3] = 50;
  const at::Tensor weights = causal_softmax(scores, nullptr, 0.5)[0][0];
  EXPECT_TRUE(weights[0].equal(at::tensor({1.0 / 3, 1.0 / 3, 1.0 / 3, 0.0}, at::kDouble)));
  EXPECT_TRUE(weights[1].equal(at::full({4}, 0.25, at::kDouble)));
  EXPECT_EQ(causal_softmax(scores.to(at::kBFloat16), nullptr, 0.5).scalar_type(), at::kFloat);
  const at::Tensor one = at::tensor({0.0, 2.0}, at::kDouble).view({1, 1, 1, 2});
  EXPECT_NEAR(causal_softmax(one, nullptr, 0.5)[0][0][0][1].item<double>(), 1 / (1 + std::exp(-1)),
              1e-15);
}

// Rows of several texts: each text as if alone, to rounding where a product is over all rows.
TEST(MixingSystems, PackedTextsSeeThemselvesAlone) {
  for (const auto& [name, config] : bare_systems()) {
    const auto attention = make_attention(config, random_parameters(config), 0, {});
    const RotaryTable rotary(9, config.rotary_width(), 1e4, at::kDouble, at::kCPU);
    const at::Tensor x = features(9, 1, config.hidden_size, 0.4).flatten(2);
    const Projected p = attention->project(x, rotary, 0);
    PackedLayout layout;
    layout.lengths = {4, 5, 9};
    const at::Tensor packed = attention->attend(p.queries_BTHD, p.entry, &layout);
    const auto part = [](const at::Tensor& tensor, int64_t row, int64_t begin, int64_t length) {
      return tensor.narrow(0, row, 1).narrow(1, begin, length);
    };
    for (const auto& [row, begin, length] :
         {std::tuple{0, 0, 4}, std::tuple{0, 4, 5}, std::tuple{1, 0, 9}}) {
      CacheEntry entry;
      for (const at::Tensor& tensor : p.entry) entry.push_back(part(tensor, row, begin, length));
      const at::Tensor alone =
          attention->attend(part(p.queries_BTHD, row, begin, length), entry, nullptr);
      EXPECT_LT(largest(part(packed, row, begin, length) - alone), 1e-12)
          << name << ", from " << begin;
    }
  }
}

}  // namespace
}  // namespace kha::test
